import { PHASES } from '@leasehold/keys-core';
import type { LeaseListInput } from '@leasehold/keys-core/leases';
import { Option, type Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { pageText, withDatacenters, withPage, type PageOptions } from '../../options.ts';
import { leaseTable } from '../../output/lease-text.ts';
import {
  nothingText,
  RECENT_GRANTS,
  recentFilter,
  withAll,
  type Recency,
  type RecentOptions,
} from '../../arguments/recent.ts';
import type { LeaseView } from '../../views.ts';

/** The options of a list of leases or environments. */
export interface LeaseLsOptions extends PageOptions, RecentOptions {
  readonly namespace?: string;
  readonly children: boolean;
  readonly name?: string;
  readonly prefix?: string;
  readonly phase?: LeaseView['phase'];
  readonly holder?: string;
  readonly datacenter?: string;
  readonly sort?: (typeof SORTS)[number];
  readonly desc?: boolean;
}

const SORTS = ['name', 'grantedAt', 'expiresAt'] as const satisfies NonNullable<
  LeaseListInput['sort']
>[];

/** `leasehold leases ls`. */
export function addLeasesLs(cli: Cli, parent: Command): void {
  withLeaseFilters(
    cli.leaf(parent, 'ls', 'List leases, who holds them, and for how much longer'),
    RECENT_GRANTS,
  ).action(async (options: LeaseLsOptions) => {
    const page = await cli.client().leases.list.query(leaseListInput(options, RECENT_GRANTS));
    cli.show(page, () =>
      pageText(page, nothingText('leases', options, RECENT_GRANTS), (items) =>
        leaseTable('lease', items, options.datacenter),
      ),
    );
  });
}

/** Adds the options that filter, sort and limit a list. */
export function withLeaseFilters(command: Command, recency: Recency): Command {
  return withAll(withDatacenters(withPage(command)), recency)
    .option('--namespace <namespace>', 'in this namespace and its children')
    .option('--no-children', 'with --namespace: not in its children')
    .option('--name <name>', 'of this key')
    .option('--prefix <text>', 'whose key begins with this')
    .addOption(new Option('--phase <phase>', 'in this phase').choices(PHASES))
    .option('--holder <holder>', 'of this holder')
    .addOption(new Option('--sort <field>', 'sort by this').choices(SORTS))
    .option('--desc', 'reverse the order');
}

/** The filters as the API takes them. */
export function leaseListInput(
  options: LeaseLsOptions,
  recency: Recency,
): LeaseListInput & { datacenter?: string | undefined } {
  const { namespace, name, prefix, phase, holder, datacenter, sort, limit, cursor } = options;
  return {
    ...{ namespace, name, prefix, phase, holder, datacenter, sort, limit, cursor },
    ...recentFilter(options, recency),
    includeChildren: options.children,
    direction: options.desc === true ? 'desc' : undefined,
  };
}
