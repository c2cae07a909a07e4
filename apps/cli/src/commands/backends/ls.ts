import { BACKEND_STATUSES, type BackendStatus } from '@leasehold/keys-core';
import { Option, type Command } from 'commander';
import type { Cli } from '../../cli.ts';
import type { BackendView } from '../../views.ts';
import { pageText, withDatacenters, withPage, type PageOptions } from '../../options.ts';
import { printable, printableOr } from '../../output/printable.ts';
import { placed, tableText, type Column } from '../../output/table.ts';

const COLUMNS: readonly Column<BackendView>[] = [
  { head: 'backend', text: (backend) => backend.backendId },
  { head: 'status', text: (backend) => backend.status },
  { head: 'reason', text: (backend) => backend.reason ?? '' },
  { head: 'key', text: (backend) => printable(backend.key.name) },
  { head: 'namespace', text: ({ key }) => (key.namespace === '' ? '' : printable(key.namespace)) },
  { head: 'program', text: (backend) => backend.program },
  { head: 'drone', text: (backend) => backend.droneId },
  { head: 'address', text: (backend) => printableOr(backend.address) },
  { head: 'since', text: (backend) => backend.statusAt },
];

interface BackendsLsOptions extends PageOptions {
  readonly drone?: string;
  readonly status?: BackendStatus;
  readonly live?: boolean;
  readonly program?: string;
  readonly namespace?: string;
  readonly key?: string;
  readonly datacenter?: string;
}

/** `leasehold backends ls`. */
export function addBackendsLs(cli: Cli, parent: Command): void {
  withDatacenters(withPage(cli.leaf(parent, 'ls', 'List backends, newest first')))
    .option('--live', 'that have not terminated')
    .addOption(new Option('--status <status>', 'in this status').choices(BACKEND_STATUSES))
    .option('--drone <drone>', 'on this drone')
    .option('--program <program>', 'of this program')
    .option('--key <name>', 'of keys of this name')
    .option('--namespace <namespace>', 'of keys in this namespace and its children')
    .action(async (options: BackendsLsOptions) => {
      const { drone, key, ...same } = options;
      const page = await cli.client().backends.list.query({ ...same, droneId: drone, name: key });
      const columns = placed(COLUMNS, options.datacenter);
      cli.show(page, () => pageText(page, 'No backends.', (items) => tableText(items, columns)));
    });
}
