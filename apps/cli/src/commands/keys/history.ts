import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import {
  moreText,
  withDatacenter,
  withNamespace,
  withPage,
  type PageOptions,
} from '../../options.ts';
import { eventTable } from '../../output/lease-text.ts';

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
          : `${eventTable(page.items)}${moreText(page.nextCursor)}`,
      );
    },
  );
}
