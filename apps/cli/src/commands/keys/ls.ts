import { PHASES } from '@leasehold/keys-core';
import type { KeyListInput, KeyView } from '@leasehold/keys-core/keys';
import { Option, type Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { pageText, withDatacenters, withPage, type PageOptions } from '../../options.ts';
import { agoText, durationText } from '../../output/duration.ts';
import { printable, printableOr } from '../../output/printable.ts';
import { placed, tableText, type Column } from '../../output/table.ts';
import {
  nothingText,
  RECENT_GRANTS,
  recentFilter,
  withAll,
  type RecentOptions,
} from '../../arguments/recent.ts';

interface KeysLsOptions extends PageOptions, RecentOptions {
  readonly namespace?: string;
  readonly name?: string;
  readonly prefix?: string;
  readonly phase?: KeyView['phase'];
  readonly holder?: string;
  readonly drone?: string;
  readonly tag?: string;
  readonly datacenter?: string;
  readonly sort?: (typeof SORTS)[number];
  readonly desc?: boolean;
}

const SORTS = ['name', 'grantedAt', 'expiresAt'] as const satisfies NonNullable<
  KeyListInput['sort']
>[];

const COLUMNS: readonly Column<KeyView>[] = [
  { head: 'key', text: (key) => printable(key.name) },
  { head: 'namespace', text: (key) => (key.namespace === '' ? '' : printable(key.namespace)) },
  { head: 'tag', text: (key) => (key.tag === '' ? '' : printable(key.tag)) },
  { head: 'phase', text: (key) => key.phase },
  { head: 'remaining', text: (key) => remainingText(key), align: 'right' },
  { head: 'backend', text: (key) => printableOr(key.backendId) },
  { head: 'status', text: (key) => key.backendStatus ?? '-' },
  { head: 'drone', text: (key) => printableOr(key.droneId) },
  { head: 'token', text: (key) => key.fencingToken },
  { head: 'granted', text: (key) => agoText(key.grantedAt, key.asOf) },
  {
    head: 'waiters',
    text: (key) => (key.waiters === 0 ? '' : String(key.waiters)),
    align: 'right',
  },
];

/** `leasehold keys ls`. */
export function addKeysLs(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'ls', 'List keys, who holds them, and for how much longer');
  withAll(withDatacenters(withPage(command)), RECENT_GRANTS)
    .option('--namespace <namespace>', 'in this namespace and its children')
    .option('--name <name>', 'of this name')
    .option('--prefix <text>', 'whose name begins with this')
    .addOption(new Option('--phase <phase>', 'in this phase').choices(PHASES))
    .option('--holder <holder>', 'of this holder')
    .option('--drone <drone>', 'on this drone')
    .option('--tag <tag>', 'under this tag')
    .addOption(new Option('--sort <field>', 'sort by this').choices(SORTS))
    .option('--desc', 'reverse the order')
    .action(async (options: KeysLsOptions) => {
      const page = await cli.client().keys.list.query(listInput(options));
      const columns = placed(COLUMNS, options.datacenter);
      cli.show(page, () =>
        pageText(page, nothingText('keys', options, RECENT_GRANTS), (keys) =>
          tableText(keys, columns),
        ),
      );
    });
}

function listInput(
  options: KeysLsOptions,
): Partial<KeyListInput> & { datacenter?: string | undefined } {
  const {
    namespace,
    name,
    prefix,
    phase,
    holder,
    drone,
    tag,
    datacenter,
    sort,
    desc,
    limit,
    cursor,
  } = options;
  return {
    ...{
      namespace,
      name,
      prefix,
      phase,
      holder,
      droneId: drone,
      tag,
      datacenter,
      limit,
      cursor,
      sort,
    },
    ...recentFilter(options, RECENT_GRANTS),
    // As the help says, and as in lists of leases.
    includeChildren: true,
    direction: desc === true ? 'desc' : undefined,
  };
}

/** What is left of a grant; a dash for a key that nobody holds. */
export function remainingText(key: KeyView): string {
  return key.phase === 'held' || key.phase === 'expiring' ? durationText(key.remainingMs) : '-';
}
