import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import type { AuditView } from '../../views.ts';
import { moreText, withPage, type PageOptions } from '../../options.ts';
import { printable } from '../../output/printable.ts';
import { tableText, type Column } from '../../output/table.ts';

const COLUMNS: readonly Column<AuditView>[] = [
  { head: 'at', text: (entry) => entry.at },
  { head: 'actor', text: (entry) => printable(entry.actor) },
  { head: 'role', text: (entry) => entry.role },
  { head: 'action', text: (entry) => entry.action },
  { head: 'resource', text: (entry) => printable(entry.resource) },
  { head: 'reason', text: (entry) => (entry.reason === null ? '' : printable(entry.reason)) },
];

interface AuditLsOptions extends PageOptions {
  readonly actor?: string;
  readonly action?: string;
  readonly resource?: string;
  readonly from?: string;
  readonly to?: string;
}

/** `leasehold audit ls`. */
export function addAuditLs(cli: Cli, parent: Command): void {
  withPage(cli.leaf(parent, 'ls', 'List what operators did, newest first'))
    .option('--actor <name>', 'by this actor')
    .option('--action <procedure>', 'of this kind, such as drones.drain')
    .option('--resource <resource>', 'to this, such as drone:d1')
    .option('--from <instant>', 'from this instant on (ISO-8601)')
    .option('--to <instant>', 'before this instant (ISO-8601)')
    .action(async (options: AuditLsOptions) => {
      const { actor, action, resource, from, to, limit, cursor } = options;
      const filters = { actor, action, resource, from, to };
      const page = await cli.client().audit.list.query({ ...filters, limit, cursor });
      cli.show(page, () =>
        page.items.length === 0
          ? 'Nothing in the audit.'
          : `${tableText(page.items, COLUMNS)}${moreText(page.nextCursor)}`,
      );
    });
}
