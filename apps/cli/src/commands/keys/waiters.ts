import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import {
  moreText,
  withDatacenter,
  withNamespace,
  withPage,
  type PageOptions,
} from '../../options.ts';
import { waiterTable } from '../../output/lease-text.ts';

/** `leasehold keys waiters`. */
export function addKeysWaiters(cli: Cli, parent: Command): void {
  withPage(
    withDatacenter(
      withNamespace(
        cli.leaf(parent, 'waiters <name>', 'List who waits for a key, first in line first'),
      ),
    ),
  ).action(
    async (name: string, options: PageOptions & { namespace: string; datacenter?: string }) => {
      const { namespace, datacenter, limit, cursor } = options;
      const page = await cli
        .client()
        .keys.waiters.query({ name, namespace, datacenter, limit, cursor });
      cli.show(page, () =>
        page.items.length === 0
          ? 'Nobody waits.'
          : `${waiterTable(page.items)}${moreText(page.nextCursor)}`,
      );
    },
  );
}
