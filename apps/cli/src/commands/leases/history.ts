import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { withScope } from '../../arguments/lease-lookup.ts';
import { moreText, withPage, type PageOptions } from '../../options.ts';
import { eventTable } from '../../output/lease-text.ts';
import { parseScope } from '../../arguments/scope.ts';

/** `leasehold leases history`. */
export function addLeasesHistory(cli: Cli, parent: Command): void {
  withPage(withScope(cli.leaf(parent, 'history <scope>', 'Show what happened to a lease'))).action(
    async (text: string, options: PageOptions & { namespace?: string; datacenter?: string }) => {
      const { namespace, datacenter, limit, cursor } = options;
      const scope = parseScope(text, namespace);
      const page = await cli.client().leases.history.query({ ...scope, datacenter, limit, cursor });
      cli.show(page, () =>
        page.items.length === 0
          ? 'Nothing has happened to this lease, as far back as events are kept.'
          : `${eventTable(page.items)}${moreText(page.nextCursor)}`,
      );
    },
  );
}
