import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import * as options from '../../options.ts';
import { eventTable, waiterTable } from '../../output/lease-text.ts';

type KeyPageOptions = options.PageOptions & { namespace: string; datacenter?: string | undefined };
type KeyPageInput = KeyPageOptions & { name: string };

/** `leasehold keys history`. */
export function addKeysHistory(cli: Cli, parent: Command): void {
  addKeyPages(cli, cli.leaf(parent, 'history <name>', 'Show what happened to a key'), {
    read: (input) => cli.client().keys.history.query(input),
    none: 'Nothing has happened to this key, as far back as events are kept.',
    table: eventTable,
  });
}

/** `leasehold keys waiters`. */
export function addKeysWaiters(cli: Cli, parent: Command): void {
  const about = 'List who waits for a key, first in line first';
  addKeyPages(cli, cli.leaf(parent, 'waiters <name>', about), {
    read: (input) => cli.client().keys.waiters.query(input),
    none: 'Nobody waits.',
    table: waiterTable,
  });
}

function addKeyPages<Item>(
  cli: Cli,
  leaf: Command,
  of: {
    read: (input: KeyPageInput) => Promise<{ items: Item[]; nextCursor: string | null }>;
    none: string;
    table: (items: Item[]) => string;
  },
): void {
  options
    .withPage(options.withDatacenter(options.withNamespace(leaf)))
    .action(async (name: string, given: KeyPageOptions) => {
      const { namespace, datacenter, limit, cursor } = given;
      const page = await of.read({ name, namespace, datacenter, limit, cursor });
      cli.show(page, () =>
        page.items.length === 0
          ? of.none
          : `${of.table(page.items)}${options.moreText(page.nextCursor)}`,
      );
    });
}
