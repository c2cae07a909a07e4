import { leaseholdErrorOf } from '@leasehold/client';
import {
  BACKEND_SORTS,
  BACKEND_STATUSES,
  bytesText,
  hasFailedOrWasRefused,
  percentText,
  printableText,
  sayEnd,
  sayFailure,
  type LogLine,
} from '@leasehold/keys-core';
import { Option, type Command } from 'commander';
import { addGatewayRun } from '../apps.ts';
import type { Cli } from '../cli.ts';
import {
  follow,
  type BackendDetail,
  type BackendListInput,
  type BackendLogsInput,
  type BackendStateView,
  type BackendView,
  type GatewayView,
} from '../controller-api.ts';
import { EXIT_CODES, failureOf, refusal, unreachable, usageFailure } from '../failures.ts';
import {
  placeOption,
  wholeNumberOf,
  withDatacenter,
  withDatacenters,
  withDuration,
  withPage,
  withReason,
  type ActOptions,
  missingText,
  pageText,
  requireConfirmation,
  type ConfirmedOptions,
  withConfirmation,
  withNamespace,
} from '../options.ts';
import {
  detailsText,
  indentedLines,
  placed,
  printable,
  printableOr,
  type Column,
} from '../output/text.ts';

/** `leasehold backends`. */
export function addBackends(cli: Cli, program: Command): void {
  const parent = program.command('backends').description('List, follow and stop backends');
  addLs(cli, parent);
  addShow(cli, parent);
  addTerminate(cli, parent);
  addLogs(cli, parent);
  addWatch(cli, parent);
}

const COLUMNS: readonly Column<BackendView>[] = [
  { head: 'backend', text: (backend) => backend.backendId },
  { head: 'status', text: statusText },
  { head: 'reason', text: (backend) => backend.reason ?? '' },
  { head: 'key', text: (backend) => printable(backend.key.name) },
  { head: 'namespace', text: ({ key }) => printableOr(key.namespace, '') },
  { head: 'program', text: (backend) => backend.program },
  { head: 'drone', text: (backend) => backend.droneId },
  { head: 'address', text: (backend) => printableOr(backend.address) },
  { head: 'cpu', text: ({ usage }) => cpuText(usage), align: 'right' },
  { head: 'memory', text: ({ usage }) => memoryText(usage), align: 'right' },
  { head: 'since', text: (backend) => backend.statusAt },
  { head: 'created', text: (backend) => backend.createdAt, isWide: true },
  { head: 'last used', text: (backend) => backend.lastUsedAt ?? '-', isWide: true },
  { head: 'lease id', text: (backend) => backend.leaseId, isWide: true },
];

/** The status, or how it failed: `Crashed (17)`, as in the list of keys. */
function statusText(backend: BackendView): string {
  const { status, address } = backend;
  if (status !== 'terminated' || !hasFailedOrWasRefused(backend, address !== null)) return status;
  return sayFailure(backend);
}

/** Of one processor: two are 200 %. */
function cpuText(usage: BackendView['usage']): string {
  return usage?.cpus == null ? '-' : percentText(usage.cpus);
}

function memoryText(usage: BackendView['usage']): string {
  return usage === null ? '-' : bytesText(usage.memoryBytes);
}

type LsOptions = BackendListInput & { readonly drone?: string; readonly key?: string };

function addLs(cli: Cli, parent: Command): void {
  withDatacenters(withPage(cli.leaf(parent, 'ls', 'List backends, newest first')))
    .option('--live', 'that have not terminated')
    .addOption(new Option('--status <status>', 'in this status').choices(BACKEND_STATUSES))
    .option('--drone <drone>', 'on this drone')
    .option('--program <program>', 'of this program')
    .option('--key <name>', 'of keys of this name')
    .option('-n, --namespace <namespace>', 'of keys in this namespace and its children')
    .addOption(
      new Option(
        '--sort <field>',
        'sort by this, the most or the newest first; by memory and cpu: only running ones of which that is known',
      ).choices(BACKEND_SORTS),
    )
    .action(async ({ drone, key, ...same }: LsOptions) => {
      const page = await cli.client().backends.list.query({ ...same, droneId: drone, name: key });
      cli.showPage(page, 'No backends.', placed(COLUMNS, same.datacenter));
    });
}

const WHERE_HELP =
  "where it runs; by default the controller's own, or the home of the key (with --namespace, unless it is in the root)";

function addShow(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'show <key-or-backend>',
    'Show one backend; of a key the newest one',
  );
  command
    .option('-n, --namespace <namespace>', 'the namespace of the key')
    .option('--datacenter <name>', WHERE_HELP)
    .action(async (named: string, options: NamedOptions) => {
      const backend = await cli.client().backends.get.query(await backendOf(cli, named, options));
      cli.show(backend, () => backendText(backend));
    });
}

function backendText(backend: BackendDetail): string {
  const { lifetimeLimitSeconds: lifetime, exitCode, logFiles, output } = backend;
  return detailsText([
    ['backend', backend.backendId],
    ['status', `${statusText(backend)}, since ${backend.statusAt}`],
    ...(backend.reason === null
      ? []
      : [
          [
            'reason',
            `${backend.reason}: ${sayEnd({ ...backend, detail: detailOf(backend) })}`,
          ] as const,
        ]),
    ...(exitCode === null ? [] : [['exit code', String(exitCode)] as const]),
    ['key', printable(backend.key.name)],
    ['namespace', printableOr(backend.key.namespace)],
    ['tag', printableOr(backend.key.tag)],
    ['program', backend.program],
    ['kind', backend.image === null ? 'command' : 'container'],
    ...(backend.image === null ? [] : [['image', printable(backend.image)] as const]),
    ['drone', backend.droneId],
    ['address', printableOr(backend.address)],
    ...(backend.usage === null
      ? []
      : ([
          ['cpu', backend.usage.cpus === null ? '-' : `${cpuText(backend.usage)} of one processor`],
          ['memory', memoryText(backend.usage)],
        ] as const)),
    ['fencing token', backend.fencingToken],
    ['lease id', backend.leaseId],
    ['created', backend.createdAt],
    ...(logFiles === null ? [] : [['output in', printable(logFiles)] as const]),
    ...(lifetime === null ? [] : [['lifetime limit', `${String(lifetime)} s`] as const]),
    ...idleDetails(backend),
    ...gatewayDetails(backend),
    ['datacenter', backend.datacenter],
    ...(output === null ? [] : [['last lines', `\n${indentedLines(output)}`] as const]),
  ]);
}

/** Nothing for a backend that runs on without a use. */
function idleDetails({ idleStopSeconds, lastUsedAt, idleStopAt }: BackendView): [string, string][] {
  if (idleStopSeconds === null) return [];
  return [
    ['idle stop', `after ${String(idleStopSeconds)} s without a use`],
    ['last used', lastUsedAt ?? '-'],
    ...(idleStopAt === null
      ? []
      : [['stops at', `${idleStopAt}, unless it is used`] as [string, string]]),
  ];
}

function gatewayDetails({ throughGateways }: BackendDetail): [string, string][] {
  if (throughGateways === null) return [];
  const { connections, users, requestsPerSecond } = throughGateways;
  return [
    ['through gateways', `${String(connections)} open, ${String(users)} users`],
    ['requests', `${requestsPerSecond.toFixed(1)} a second`],
  ];
}

/** What its drone has said about its end. */
function detailOf({ states }: BackendDetail): string | null {
  return states.find(({ status }) => status === 'terminated')?.detail ?? null;
}

/** Which backend is meant by the name of a key. */
interface NamedOptions {
  readonly namespace?: string;
  readonly previous?: true;
  readonly datacenter?: string;
}

interface LogsOptions extends NamedOptions {
  readonly follow?: true;
  readonly tail?: number;
  readonly since?: number;
  readonly timestamps?: true;
}

const LOGS_HELP = `
With the name of a key, of its newest backend. What it wrote to its standard error goes to the standard error of this
command. The drone keeps the newest 3 MiB of each backend, and what ended up to seven days ago.`;

/** Milliseconds. Nothing is kept for longer than a year. */
const SINCE_RANGE = [1, 365 * 24 * 60 * 60_000] as const;

/** What a backend has written, also after its end. */
function addLogs(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'logs <key-or-backend>', 'Print what a backend has written');
  withDuration(command, '--since', { about: 'not older than this', range: SINCE_RANGE })
    .option('-f, --follow', 'go on until it has ended')
    .option('--tail <lines>', 'the last lines only', wholeNumberOf('--tail'))
    .option('--previous', 'of the backend before the newest one of the key')
    .option('-t, --timestamps', 'with time and stream before each line')
    .option('-n, --namespace <namespace>', 'the namespace of the key')
    .option('--datacenter <name>', WHERE_HELP)
    .addHelpText('after', LOGS_HELP)
    .action(async (named: string, options: LogsOptions) => {
      const { backendId, datacenter } = await backendOf(cli, named, options);
      const { tail, since } = options;
      let wanted: BackendLogsInput = { backendId, tail, sinceMs: since, datacenter };
      let printedCount = 0;
      const print = (line: LogLine): void => {
        printedCount += 1;
        printLine(cli, line, options.timestamps === true);
      };
      let page;
      do {
        page = await cli.client().backends.logs.query(wanted);
        for (const line of page.lines) print(line);
        wanted = { backendId, from: page.position, datacenter };
      } while (page.hasMore);
      if (!page.isThere && page.hasEnded) {
        throw refusal('backend.not_found', `Its drone has no output of ${backendId} any more.`);
      }
      if (options.follow !== true) {
        if (printedCount > 0 || cli.isJson) return;
        const lately = since === undefined ? '' : ' within this time';
        cli.context.stderr(`${backendId} has written nothing${lately}.\n`);
        return;
      }
      if (page.hasEnded) {
        await printEnd(cli, { backendId, datacenter });
        return;
      }
      const client = cli.client('ws');
      let isTold = false;
      const stop = cli.context.signalWhileRead();
      await follow<{ id: string; data: { lines: readonly LogLine[] } }>(
        stop,
        (listener) => client.backends.followLogs.subscribe(wanted, listener),
        ({ id, data }) => {
          wanted = { backendId, from: Number(id), datacenter };
          isTold = false;
          data.lines.forEach(print);
        },
        async (error) => {
          // A drone that is gone keeps nothing: then nothing follows.
          const { status } = await cli
            .client()
            .backends.get.query({ backendId, datacenter }, { signal: stop })
            .catch(() => ({ status: undefined }));
          if (status === 'terminated') throw error;
          if (!isTold && !stop.aborted) {
            cli.note(`${printable(failureOf(error).message)} Trying again.`);
          }
          isTold = true;
        },
      );
      if (!stop.aborted) await printEnd(cli, { backendId, datacenter }, stop);
    });
}

/** Why nothing more is followed, and how to go on: a key may have another backend by now. */
async function printEnd(
  cli: Cli,
  which: PlacedBackend,
  stop = new AbortController().signal,
): Promise<void> {
  if (cli.isJson) return;
  const asked = cli.client().backends.get.query(which, { signal: stop });
  const ended = await asked.catch((error: unknown) => {
    if (stop.aborted) return undefined;
    throw error;
  });
  if (ended?.status !== 'terminated') return;
  const how = printable(sayEnd({ ...ended, detail: detailOf(ended) }));
  const name = printable(ended.key.name);
  cli.context.stderr(
    `${which.backendId} has ended: ${how}. The next connect to ${name} starts another one.\n`,
  );
}

const BACKEND_ID = /^bk-[0-9a-z]+$/u;

/** A backend, and where it runs; undefined in the controller's own datacenter. */
interface PlacedBackend {
  readonly backendId: string;
  readonly datacenter: string | undefined;
}

/** The backend with this id, or the newest one of the key of this name, or the one before that. */
async function backendOf(
  cli: Cli,
  named: string,
  { namespace, previous, datacenter: given }: NamedOptions,
): Promise<PlacedBackend> {
  const client = cli.client();
  if (namespace === undefined && BACKEND_ID.test(named)) {
    if (previous === undefined) return { backendId: named, datacenter: given };
    throw usageFailure('--previous goes with the name of a key: a backend is named by its id.');
  }
  const home = given ?? (await homeOf(client, named, namespace));
  const datacenter = typeof home === 'string' ? home : undefined;
  const listed = await client.backends.list.query({
    name: named,
    namespace,
    limit: 50,
    datacenter,
  });
  await assertOnePlace(client, named, { ...listed, namespace, given, datacenter });
  const [newest, before] = listed.items;
  const found = previous === true ? before : newest;
  if (found !== undefined) return { backendId: found.backendId, datacenter };
  if (newest !== undefined) {
    throw refusal(
      'backend.not_found',
      `The key ${printable(named)} has had one backend only: ${newest.backendId}.`,
    );
  }
  if (home instanceof Error) throw home;
  if (listed.unreachable.length > 0) {
    throw unreachable(
      `The datacenter ${printable(datacenter ?? '')} does not answer.`,
      '`leasehold datacenters ls` shows which can be reached.',
    );
  }
  throw refusal(
    'backend.not_found',
    `There is no backend of a key ${printable(named)}.`,
    'A key of a namespace needs --namespace. `leasehold backends ls` lists all.',
  );
}

/** The datacenter in which a key lives, which a controller of another one knows; the error where it cannot be asked. */
async function homeOf(
  client: ReturnType<Cli['client']>,
  name: string,
  namespace = '',
): Promise<string | Error | undefined> {
  try {
    return (await client.keys.get.query({ name, namespace }))?.datacenter;
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

/** @throws {CliFailure} when no namespace was given, and keys of several have this name. */
async function assertOnePlace(
  client: ReturnType<Cli['client']>,
  name: string,
  listed: {
    readonly items: readonly BackendView[];
    readonly nextCursor: string | null;
    readonly namespace: string | undefined;
    /** What `--datacenter` names. */
    readonly given: string | undefined;
    readonly datacenter: string | undefined;
  },
): Promise<void> {
  const { namespace, given, datacenter: home } = listed;
  if (namespace !== undefined) return;
  const pages: Pick<typeof listed, 'items' | 'nextCursor' | 'datacenter'>[] = [listed];
  // That of the root may live elsewhere, and one of a namespace here.
  if (given === undefined && home !== undefined) {
    const here = await client.backends.list.query({ name, limit: 50 });
    pages.push({ ...here, datacenter: undefined });
  }
  const places = new Set<string>();
  for (const { items, nextCursor, datacenter } of pages) {
    for (const { key } of items) places.add(key.namespace);
    // Those of one key may be more than the page.
    if (nextCursor === null) continue;
    const keys = await client.keys.list.query({ name, includeChildren: true, datacenter });
    for (const one of keys.items) places.add(one.namespace);
  }
  if (places.size <= 1) return;
  const names = [...places].map((place) => printableOr(place, '""')).join(', ');
  throw usageFailure(
    `Keys in several namespaces have this name: give --namespace, one of ${names}.`,
  );
}

function printLine(cli: Cli, line: LogLine, isTimed: boolean): void {
  const { at, stream, text } = line;
  const prefix = isTimed ? `${at} ${stream} ` : '';
  const printed = cli.isJson ? JSON.stringify(line) : `${prefix}${printableText(text)}`;
  const isError = stream === 'stderr' && !cli.isJson;
  cli.context[isError ? 'stderr' : 'stdout'](`${printed}\n`);
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
      if (answer.outcome === 'gone') {
        throw refusal('backend.ended', `${backendId} has ended already.`);
      }
      cli.show(answer, () => {
        const how = hard === true ? 'is being killed' : 'was told to stop';
        const { datacenter } = options;
        // States are followed in the controller's own datacenter alone.
        const next =
          datacenter === undefined
            ? `watch ${backendId}`
            : `logs ${backendId} --follow${placeOption(datacenter)}`;
        return `${backendId} ${how}. Follow it with \`leasehold backends ${next}\`.`;
      });
    });
}

/** The states so far, and each new one until the backend is gone. */
function addWatch(cli: Cli, parent: Command): void {
  cli
    .leaf(
      parent,
      'watch <key-or-backend>',
      'Follow the states of a backend until it has terminated',
    )
    .option('-n, --namespace <namespace>', 'the namespace of the key')
    .action(async (named: string, options: NamedOptions) => {
      const { backendId, datacenter } = await backendOf(cli, named, options);
      // Over HTTP first, which fails at once when no controller answers or there is no such backend.
      await cli
        .client()
        .backends.get.query({ backendId })
        .catch((error: unknown) => {
          throw elsewhere(error, { backendId, datacenter });
        });
      const client = cli.client('ws');
      // After a broken connection the controller sends all states again.
      const known = new Set<string>();
      await follow<BackendStateView>(
        cli.context.signalWhileRead(),
        (listener) => client.backends.watch.subscribe({ backendId }, listener),
        (state) => {
          if (known.has(state.id)) return;
          known.add(state.id);
          cli.show(state, () => stateText(state));
        },
      );
    });
}

/** What to do about a backend that is not here; states are followed in the controller's own datacenter alone. */
function elsewhere(error: unknown, { backendId, datacenter }: PlacedBackend): unknown {
  const isNotHere = leaseholdErrorOf(error)?.code === 'backend.not_found';
  if (!isNotHere || datacenter === undefined) return error;
  return refusal(
    'backend.not_found',
    `${backendId} runs in the datacenter ${printable(datacenter)}, and its states are followed there alone.`,
    `\`leasehold backends logs ${backendId} --follow${placeOption(datacenter)}\` follows it from here.`,
  );
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

/** `leasehold gateway`. */
export function addGateway(cli: Cli, program: Command): void {
  const parent = program
    .command('gateway')
    .description(
      'Run a gateway, list gateways, and end the access of people who come through them',
    );
  addGatewayRun(cli, parent);
  addGatewayLs(cli, parent);
  addGatewayRevoke(cli, parent);
  addGatewayRotate(cli, parent);
}

const GATEWAY_COLUMNS: readonly Column<GatewayView>[] = [
  { head: 'gateway', text: ({ gatewayId }) => gatewayId },
  { head: 'state', text: ({ isAlive }) => (isAlive ? 'alive' : 'silent') },
  { head: 'connections', text: ({ connections }) => String(connections), align: 'right' },
  { head: 'routes', text: ({ routes }) => String(routes), align: 'right' },
  { head: 'requests', text: ({ requests }) => String(requests), align: 'right' },
  { head: 'version', text: ({ version }) => printable(version) },
  { head: 'seen', text: ({ seenAt }) => seenAt },
];

function addGatewayLs(cli: Cli, parent: Command): void {
  cli.leaf(parent, 'ls', 'List the gateways that report').action(async () => {
    const answer = await cli.client().gateway.list.query();
    const { url } = answer;
    const where = url === null ? 'The controllers know no address of one.' : `At ${url}.`;
    const page = { ...answer, nextCursor: null };
    const empty = 'No gateway reports.';
    const { format } = cli.listing;
    // Names alone are for scripts.
    if (cli.isJson || format === 'name') {
      cli.showPage(page, empty, GATEWAY_COLUMNS);
      return;
    }
    cli.show(
      page,
      () => `${pageText(page, { empty, columns: GATEWAY_COLUMNS, format })}\n\n${where}`,
    );
  });
}

interface GatewayRevokeOptions {
  readonly namespace: string;
  readonly key?: string;
  readonly user?: string;
  readonly grant?: string;
  readonly reason: string;
}

function addGatewayRevoke(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'revoke',
    'End the access that was given until now: of a user, to a key, to a grant',
  );
  withReason(withNamespace(command), true)
    .option('--user <name>', 'the user')
    .option('--key <name>', 'the key')
    .option('--grant <lease>', 'the id of the only grant that the access was given to')
    .action(async ({ namespace, key, user, grant, reason }: GatewayRevokeOptions) => {
      if ([key, user, grant].every((value) => value === undefined)) {
        throw usageFailure('Give a --user, a --key or a --grant.');
      }
      const input = { namespace, name: key, user, leaseId: grant, reason };
      const answer = await cli.client().gateway.revoke.mutate(input);
      const { revokedAt, unreachable } = answer;
      if (unreachable.length > 0) cli.exitCode = EXIT_CODES.unreachable;
      cli.show(answer, () => {
        const ended = `Access that was given until ${revokedAt} has ended, within a second.`;
        return unreachable.length === 0
          ? ended
          : `Not in every datacenter: repeat this command for those below. Elsewhere:\n${ended}${missingText(unreachable)}`;
      });
    });
}

function addGatewayRotate(cli: Cli, parent: Command): void {
  const command = cli
    .leaf(parent, 'rotate', 'Sign new tokens with a new key; older tokens work until they expire')
    .option('--now', 'end all older tokens at once');
  withConfirmation(withReason(command, true)).action(
    async ({ now = false, reason, yes }: ConfirmedOptions & { now?: boolean; reason: string }) => {
      if (now) {
        requireConfirmation({ yes }, 'Everybody who uses a gateway loses the connection.');
      }
      const answer = await cli.client().gateway.rotate.mutate({ now, reason });
      cli.show(answer, () => `New tokens are signed with the key ${answer.kid}.`);
    },
  );
}
