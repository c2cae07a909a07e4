import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { pageText } from '../../options.ts';
import { leaseTable } from '../../output/lease-text.ts';
import { nothingText, RECENT_ENVIRONMENTS } from '../../arguments/recent.ts';
import { leaseListInput, withLeaseFilters, type LeaseLsOptions } from '../leases/ls.ts';

/** `leasehold env ls`. */
export function addEnvLs(cli: Cli, parent: Command): void {
  withLeaseFilters(
    cli.leaf(parent, 'ls', 'List environments, who holds them, and for which action'),
    RECENT_ENVIRONMENTS,
  ).action(async (options: LeaseLsOptions) => {
    const page = await cli
      .client()
      .environments.list.query(leaseListInput(options, RECENT_ENVIRONMENTS));
    cli.show(page, () =>
      pageText(page, nothingText('environments', options, RECENT_ENVIRONMENTS), (items) =>
        leaseTable('environment', items, options.datacenter),
      ),
    );
  });
}
