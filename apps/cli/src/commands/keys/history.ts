import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import type { EventView } from '../../views.ts';
import {
  moreText,
  withDatacenter,
  withNamespace,
  withPage,
  type PageOptions,
} from '../../options.ts';
import { printable } from '../../output/printable.ts';
import { tableText, type Column } from '../../output/table.ts';

const COLUMNS: readonly Column<EventView>[] = [
  { head: 'at', text: (event) => event.at },
  { head: 'event', text: (event) => event.kind },
  { head: 'token', text: (event) => event.fencingToken },
  { head: 'actor', text: (event) => printable(event.actor) },
  { head: 'reason', text: (event) => (event.reason === null ? '' : printable(event.reason)) },
  { head: 'lease id', text: (event) => event.leaseId },
];

/** `leasehold keys history`. */
export function addKeysHistory(cli: Cli, parent: Command): void {
  withPage(
    withDatacenter(
      withNamespace(cli.leaf(parent, 'history <name>', 'Show what happened to a key')),
    ),
  ).action(
    async (name: string, options: PageOptions & { namespace: string; datacenter?: string }) => {
      const { namespace, datacenter, limit, cursor } = options;
      const page = await cli
        .client()
        .keys.history.query({ name, namespace, datacenter, limit, cursor });
      cli.show(page, () =>
        page.items.length === 0
          ? 'Nothing has happened to this key, as far back as events are kept.'
          : `${tableText(page.items, COLUMNS)}${moreText(page.nextCursor)}`,
      );
    },
  );
}
