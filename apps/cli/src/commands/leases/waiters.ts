import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { withScope } from '../../arguments/lease-lookup.ts';
import { moreText, withPage, type PageOptions } from '../../options.ts';
import { waiterTable } from '../../output/lease-text.ts';
import { parseScope } from '../../arguments/scope.ts';

/** `leasehold leases waiters`. */
export function addLeasesWaiters(cli: Cli, parent: Command): void {
  withPage(
    withScope(
      cli.leaf(parent, 'waiters <scope>', 'List who waits for a lease, first in line first'),
    ),
  ).action(
    async (text: string, options: PageOptions & { namespace?: string; datacenter?: string }) => {
      const { namespace, datacenter, limit, cursor } = options;
      const scope = parseScope(text, namespace);
      const page = await cli.client().leases.waiters.query({ ...scope, datacenter, limit, cursor });
      cli.show(page, () =>
        page.items.length === 0
          ? 'Nobody waits.'
          : `${waiterTable(page.items)}${moreText(page.nextCursor)}`,
      );
    },
  );
}
