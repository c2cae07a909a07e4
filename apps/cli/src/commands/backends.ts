import { BACKEND_STATUSES } from '@leasehold/keys-core';
import { Option, type Command } from 'commander';
import type { Cli } from '../cli.ts';
import { follow } from '../follow.ts';
import {
  pageText,
  withDatacenter,
  withDatacenters,
  withPage,
  withReason,
  type ActOptions,
} from '../options.ts';
import { printable, printableOr } from '../output/printable.ts';
import { detailsText, placed, type Column } from '../output/table.ts';
import type { BackendListInput, BackendStateView, BackendView } from '../views.ts';

/** `leasehold backends`. */
export function addBackends(cli: Cli, program: Command): void {
  const parent = program.command('backends').description('List, follow and stop backends');
  addLs(cli, parent);
  addShow(cli, parent);
  addTerminate(cli, parent);
  addWatch(cli, parent);
}

const COLUMNS: readonly Column<BackendView>[] = [
  { head: 'backend', text: (backend) => backend.backendId },
  { head: 'status', text: (backend) => backend.status },
  { head: 'reason', text: (backend) => backend.reason ?? '' },
  { head: 'key', text: (backend) => printable(backend.key.name) },
  { head: 'namespace', text: ({ key }) => printableOr(key.namespace, '') },
  { head: 'program', text: (backend) => backend.program },
  { head: 'drone', text: (backend) => backend.droneId },
  { head: 'address', text: (backend) => printableOr(backend.address) },
  { head: 'since', text: (backend) => backend.statusAt },
];

type LsOptions = BackendListInput & { readonly drone?: string; readonly key?: string };

function addLs(cli: Cli, parent: Command): void {
  withDatacenters(withPage(cli.leaf(parent, 'ls', 'List backends, newest first')))
    .option('--live', 'that have not terminated')
    .addOption(new Option('--status <status>', 'in this status').choices(BACKEND_STATUSES))
    .option('--drone <drone>', 'on this drone')
    .option('--program <program>', 'of this program')
    .option('--key <name>', 'of keys of this name')
    .option('--namespace <namespace>', 'of keys in this namespace and its children')
    .action(async ({ drone, key, ...same }: LsOptions) => {
      const page = await cli.client().backends.list.query({ ...same, droneId: drone, name: key });
      cli.show(page, () => pageText(page, 'No backends.', placed(COLUMNS, same.datacenter)));
    });
}

function addShow(cli: Cli, parent: Command): void {
  withDatacenter(cli.leaf(parent, 'show <backend>', 'Show one backend')).action(
    async (backendId: string, { datacenter }: ActOptions) => {
      const backend = await cli.client().backends.get.query({ backendId, datacenter });
      cli.show(backend, () => backendText(backend));
    },
  );
}

function backendText(backend: BackendView): string {
  const { lifetimeLimitSeconds: lifetime, exitCode, logs } = backend;
  return detailsText([
    ['backend', backend.backendId],
    ['status', `${backend.status}, since ${backend.statusAt}`],
    ...(backend.reason === null ? [] : [['reason', backend.reason] as const]),
    ...(exitCode === null ? [] : [['exit code', String(exitCode)] as const]),
    ['key', printable(backend.key.name)],
    ['namespace', printableOr(backend.key.namespace)],
    ['tag', printableOr(backend.key.tag)],
    ['program', backend.program],
    ['kind', backend.image === null ? 'command' : 'container'],
    ...(backend.image === null ? [] : [['image', printable(backend.image)] as const]),
    ['drone', backend.droneId],
    ['address', printableOr(backend.address)],
    ['fencing token', backend.fencingToken],
    ['lease id', backend.leaseId],
    ['created', backend.createdAt],
    ...(logs === null ? [] : [['stdout', printable(logs.stdout)] as const]),
    ...(logs === null ? [] : [['stderr', printable(logs.stderr)] as const]),
    ...(lifetime === null ? [] : [['lifetime limit', `${String(lifetime)} s`] as const]),
    ['datacenter', backend.datacenter],
  ]);
}

function addTerminate(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'terminate <backend>',
    'Stop a backend; its key is free when it has ended',
  );
  withReason(withDatacenter(command), false)
    .option('--hard', 'kill it at once, without a stop signal')
    .action(async (backendId: string, { hard, ...options }: ActOptions & { hard?: true }) => {
      const mode = hard === true ? 'hard' : 'soft';
      const answer = await cli.client().backends.terminate.mutate({ backendId, mode, ...options });
      cli.show(answer, () => {
        const how = hard === true ? 'is being killed' : 'was told to stop';
        return `${backendId} ${how}. Follow it with \`leasehold backends watch ${backendId}\`.`;
      });
    });
}

/** The states so far, and each new one until the backend is gone. */
function addWatch(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'watch <backend>', 'Follow the states of a backend until it has terminated')
    .action(async (backendId: string) => {
      // Over HTTP first, which fails at once when no controller answers or there is no such backend.
      await cli.client().backends.get.query({ backendId });
      const client = cli.client('ws');
      await follow<BackendStateView>(
        cli.context.signal(),
        (listener) => client.backends.watch.subscribe({ backendId }, listener),
        (state) => cli.show(state, () => stateText(state)),
      );
    });
}

function stateText(state: BackendStateView): string {
  const more = [
    state.reason,
    state.address === null ? null : `at ${printable(state.address)}`,
    state.exitCode === null ? null : `exit code ${String(state.exitCode)}`,
    state.detail === null ? null : printable(state.detail),
  ].filter((text) => text !== null);
  return `${state.at}  ${[state.status, ...more].join(', ')}`;
}
