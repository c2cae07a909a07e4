import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import type { AuditView } from '../../views.ts';
import { moreText, withPage, type PageOptions } from '../../options.ts';
import { printable } from '../../output/printable.ts';
import { tableText, type Column } from '../../output/table.ts';
import { withAuditFilters, type AuditFilters } from './filters.ts';

const COLUMNS: readonly Column<AuditView>[] = [
  { head: 'at', text: (entry) => entry.at },
  { head: 'actor', text: (entry) => printable(entry.actor) },
  { head: 'role', text: (entry) => entry.role },
  { head: 'action', text: (entry) => entry.action },
  { head: 'resource', text: (entry) => printable(entry.resource) },
  { head: 'reason', text: (entry) => (entry.reason === null ? '' : printable(entry.reason)) },
];

type AuditLsOptions = PageOptions & AuditFilters;

/** `leasehold audit ls`. */
export function addAuditLs(cli: Cli, parent: Command): void {
  withAuditFilters(
    withPage(cli.leaf(parent, 'ls', 'List what operators did, newest first')),
  ).action(async (options: AuditLsOptions) => {
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
