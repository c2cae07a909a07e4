import { randomUUID } from 'node:crypto';
import type { ControllerApi } from '@leasehold/client';
import { LIMITS, sayEnd, sayFailure } from '@leasehold/keys-core';
import type { KeyFailuresView, KeyView } from '@leasehold/keys-core/keys';
import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import type {
  ConnectAnswer,
  ConnectInput,
  KeyListInput,
  RefusalListInput,
  RefusalView,
} from '../controller-api.ts';
import { refusal, usageFailure } from '../failures.ts';
import { openInBrowser, ownUserName } from '../processes.ts';
import {
  appendText,
  nothingText,
  ownFilter,
  placeOption,
  RECENT_GRANTS,
  recentFilter,
  withAll,
  withDatacenter,
  withDatacenters,
  withDuration,
  withHolding,
  withInternal,
  withKey,
  withNamespace,
  withPage,
  withReason,
  withSort,
  type ActOptions,
  type GrantListOptions,
  type PageOptions,
} from '../options.ts';
import {
  historyColumns,
  isHeld,
  momentText,
  remainingText,
  WAITER_COLUMNS,
  withMoment,
  type MomentOptions,
} from '../output/grant-text.ts';
import {
  agoText,
  detailsText,
  durationText,
  placed,
  printable,
  printableOr,
  type Column,
} from '../output/text.ts';
import { lookAtStart, startText, tellingWhile } from '../run/connect-waiting.ts';
import { addRenewal } from './leases.ts';

/** `leasehold keys`. */
export function addKeys(cli: Cli, program: Command): void {
  const parent = program.command('keys').description('List, inspect and revoke keys');
  addLs(cli, parent);
  addShow(cli, parent);
  addRevoke(cli, parent);
  addRenewal(cli, parent, {
    router: 'keys',
    argument: '<name>',
    descriptions: {
      blockRenewal:
        'Let a key expire: it is not renewed any more, and its backend stops by its deadline',
      allowRenewal:
        'Undo block-renewal, if the key has not expired and its backend is not stopping',
    },
    withOptions: withKey,
    find: async (client, name, options: KeyOptions) => {
      const { leaseId, datacenter } = await findKey(client, name, options);
      return { leaseId, datacenter, shownAs: printable(name) };
    },
  });
  addResetFailures(cli, parent);
  addWaiters(cli, parent);
  addHistory(cli, parent);
}

/** What an operator does after a correction of the program. */
function addResetFailures(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'reset-failures <name>', 'Let a failing key start at once');
  withReason(withKey(command), false).action(async (name: string, options: KeyOptions) => {
    const client = cli.client();
    const { reason } = options;
    const { namespace, datacenter } = await findKey(client, name, options);
    const answer = await client.keys.resetFailures.mutate({ name, namespace, datacenter, reason });
    cli.show(answer, () =>
      answer.changed
        ? `${printable(name)} may be started at once.`
        : `The last backend of ${printable(name)} has not failed.`,
    );
  });
}

const DAY_MINUTES = 24 * 60;

/** The options of a command on one key. */
interface KeyOptions extends ActOptions {
  readonly namespace: string;
}

/** The key of this name. @throws {CliFailure} `key.not_found` when it was never held, or may not be seen. */
async function findKey(
  client: ControllerApi,
  name: string,
  { namespace, datacenter }: KeyOptions,
): Promise<KeyView> {
  const view = await client.keys.get.query({ name, namespace, datacenter });
  if (view !== null) return view;
  const refused = await lastRefusal(client, { name, namespace, datacenter });
  const where = namespace === '' ? '' : ` in namespace ${printable(namespace)}`;
  throw refusal(
    'key.not_found',
    `There is no key ${printable(name)}${where}.${refused === null ? '' : ` The last connect was refused: ${refusalText(refused)}`}`,
    `Names are compared byte for byte, and a key may be in a --namespace. \`leasehold keys ls --all${placeOption(datacenter)}\` shows all.`,
  );
}

const COLUMNS: readonly Column<KeyView>[] = [
  { head: 'key', text: (key) => printable(key.name) },
  { head: 'namespace', text: (key) => printableOr(key.namespace, '') },
  { head: 'tag', text: (key) => printableOr(key.tag, '') },
  { head: 'phase', text: (key) => key.phase },
  { head: 'remaining', text: remainingText, align: 'right' },
  { head: 'backend', text: (key) => printableOr(key.backendId) },
  { head: 'status', text: statusText },
  { head: 'drone', text: (key) => printableOr(key.droneId) },
  { head: 'token', text: (key) => key.fencingToken },
  { head: 'granted', text: (key) => agoText(key.grantedAt, key.asOf) },
  {
    head: 'waiters',
    text: (key) => (key.waiters === 0 ? '' : String(key.waiters)),
    align: 'right',
  },
  // The last holder of a free key is of no use to somebody who looks for the present one.
  { head: 'holder', text: (key) => (isHeld(key) ? printableOr(key.holder) : '-'), isWide: true },
  { head: 'expires', text: (key) => (isHeld(key) ? key.expiresAt : '-'), isWide: true },
  { head: 'lease id', text: (key) => key.leaseId, isWide: true },
];

/** The state of a key's backend: `Crashed (17), 25 times in 5 m 00 s` while its backends fail one after another. */
function statusText({ failing, backendStatus, backendEnd, asOf }: KeyView): string {
  const isStarting = backendStatus !== null && backendStatus !== 'terminated';
  if (isStarting) return backendStatus;
  if (failing === null) {
    const hasFailed = backendEnd?.hasFailed === true || backendEnd?.reason === 'refused';
    return hasFailed ? sayFailure(backendEnd) : (backendStatus ?? '-');
  }
  const { failures, since } = failing;
  const how = sayFailure(failing);
  const ms = Math.max(1_000, Date.parse(asOf) - Date.parse(since));
  return failures === 1 ? how : `${how}, ${String(failures)} times in ${durationText(ms)}`;
}

type LsOptions = KeyListInput & GrantListOptions & { readonly drone?: string };

function addLs(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'ls', 'List keys, who holds them, and for how much longer');
  withAll(withDatacenters(withPage(command)), RECENT_GRANTS)
    .option('-n, --namespace <namespace>', 'in this namespace and its children')
    .option('--name <name>', 'of this name')
    .option('--prefix <text>', 'whose name begins with this')
    .option('--contains <text>', 'whose name as it is printed contains this, whatever its case');
  withInternal(withHolding(command))
    .option('--drone <drone>', 'on this drone')
    .option('--tag <tag>', 'under this tag');
  withSort(command).action(async (options: LsOptions) => {
    const { all, desc, drone, internal, ...same } = options;
    const page = await cli.client().keys.list.query({
      ...same,
      droneId: drone,
      ...recentFilter({ ...same, all }, RECENT_GRANTS),
      ...ownFilter(internal, same.namespace),
      // As the help says, and as in lists of leases.
      includeChildren: true,
      direction: desc === true ? 'desc' : undefined,
    });
    const empty = nothingText('keys', options, RECENT_GRANTS);
    if (cli.listing.format === 'name') requireNamespace(page.items, same.namespace ?? '');
    cli.showPage(page, empty, placed(COLUMNS, options.datacenter));
  });
}

/**
 * Names alone are for other commands on keys, which look for a name in one namespace, where it may be another key.
 * @throws {CliFailure} `cli.usage`.
 */
function requireNamespace(keys: readonly KeyView[], namespace: string): void {
  const elsewhere = keys.find((key) => key.namespace !== namespace);
  if (elsewhere === undefined) return;
  throw usageFailure(
    `The key ${printable(elsewhere.name)} is in the namespace ${printableOr(elsewhere.namespace, '""')}, which its name alone does not tell.`,
    'Give that --namespace to this command and to the next one, or read names and namespaces from `-o json`.',
  );
}

function addShow(cli: Cli, parent: Command): void {
  withMoment(withKey(cli.leaf(parent, 'show <name>', 'Show one key'))).action(
    async (name: string, { at, ...options }: KeyOptions & MomentOptions) => {
      const client = cli.client();
      if (at !== undefined) {
        const asked = { name, namespace: options.namespace, datacenter: options.datacenter };
        // Its events are where it lives, and stay there after it is gone.
        const home = options.datacenter ?? (await client.keys.get.query(asked))?.datacenter;
        const moment = await client.keys.at.query({ ...asked, datacenter: home, at });
        cli.show(moment, () => momentText('key', printable(name), moment));
        return;
      }
      const key = await findKey(client, name, options);
      const { namespace, datacenter } = key;
      const asked = { name, namespace, datacenter };
      const [failures, refused, start] = await Promise.all([
        client.keys.failures.query(asked),
        lastRefusal(client, asked),
        startText(client, key),
      ]);
      cli.show({ ...key, failures, refused }, () => keyText(key, { failures, refused, start }));
    },
  );
}

/** The last connect that was refused, of the last day; null without one. */
async function lastRefusal(
  client: ControllerApi,
  key: Pick<RefusalListInput, 'name' | 'namespace' | 'datacenter'>,
): Promise<RefusalView | null> {
  const asked = { ...key, face: 'key', limit: 1, windowMinutes: DAY_MINUTES } as const;
  return (await client.refusals.list.query(asked)).items[0] ?? null;
}

function refusalText({ code, count, lastAt, actor, reason }: RefusalView): string {
  const times = count === 1 ? '' : `, ${String(count)} times`;
  return `${code} at ${lastAt}${times}, by ${printable(actor)}: ${printable(reason)}`;
}

function keyText(
  key: KeyView,
  {
    failures,
    refused,
    start,
  }: {
    readonly failures: KeyFailuresView | null;
    readonly refused: RefusalView | null;
    /** What it waits for until its backend is ready. */
    readonly start: string | undefined;
  },
): string {
  return detailsText([
    ['key', printable(key.name)],
    ['namespace', printableOr(key.namespace)],
    ['tag', printableOr(key.tag)],
    ['phase', key.phase],
    ['remaining', remainingText(key)],
    [isHeld(key) ? 'holder' : 'last holder', printableOr(key.holder)],
    ['backend', printableOr(key.backendId)],
    ['status', statusText(key)],
    ...(start === undefined ? [] : [['waiting for', start] as const]),
    ...(key.backendEnd === null
      ? []
      : [
          [
            'reason',
            `${sayEnd(key.backendEnd)}; \`leasehold backends logs ${printableOr(key.backendId)}${placeOption(key.datacenter)}\` shows its output`,
          ] as const,
        ]),
    ['fencing token', key.fencingToken],
    ['lease id', key.leaseId],
    ['granted', `${key.grantedAt}, ${agoText(key.grantedAt, key.asOf)}`],
    ['renewed', `${key.renewedAt}, ${agoText(key.renewedAt, key.asOf)}`],
    ['expires', isHeld(key) ? key.expiresAt : '-'],
    ['renewal', key.renewable ? 'allowed' : 'blocked'],
    ['waiters', String(key.waiters)],
    ...(failures === null || key.backendStatus === 'ready'
      ? []
      : [['failures', failuresText(failures, key.asOf)] as const]),
    ...(refused === null ? [] : [['last refusal', refusalText(refused)] as const]),
    ['datacenter', key.datacenter],
  ]);
}

/** Of a key whose backends fail: since when, and when the next may start if that is still to come. */
function failuresText(
  { failures, since, backendId, startAt }: KeyFailuresView,
  asOf: string,
): string {
  const next = Date.parse(startAt) > Date.parse(asOf) ? `; next start from ${startAt}` : '';
  return `${String(failures)} since ${since}, the last one ${backendId}${next}`;
}

type KeyPageOptions = PageOptions & Omit<KeyOptions, 'reason'>;

function addHistory(cli: Cli, parent: Command): void {
  const empty = 'Nothing has happened to this key, as far back as events are kept.';
  withKeyPage(cli.leaf(parent, 'history <name>', 'Show what happened to a key')).action(
    async (name: string, options: KeyPageOptions) => {
      const page = await cli.client().keys.history.query({ name, ...options });
      cli.showPage(page, empty, historyColumns(page.items));
    },
  );
}

function addWaiters(cli: Cli, parent: Command): void {
  const about = 'List who waits for a key, first in line first';
  withKeyPage(cli.leaf(parent, 'waiters <name>', about)).action(
    async (name: string, options: KeyPageOptions) => {
      const page = await cli.client().keys.waiters.query({ name, ...options });
      cli.showPage(page, 'Nobody waits.', WAITER_COLUMNS);
    },
  );
}

function withKeyPage(command: Command): Command {
  return withPage(withDatacenter(withNamespace(command)));
}

interface RevokeOptions extends KeyOptions {
  readonly reason: string;
  readonly force?: boolean;
  readonly abandon?: boolean;
}

const REVOKE_HELP = `
Without --force, renewal is blocked and the backend is told to stop. The key is free when the backend
has stopped, or when the key has expired.

--force ends the grant at once: no renewal or release of it succeeds any more, and the drone kills the
backend. A drone that cannot be reached kills it by its last deadline. The key is granted to nobody else
until the backend has ended, or that deadline has passed.

--force --abandon allows a new grant without that wait. Two backends may then run until the time that is
printed. Only the fencing token distinguishes them.`;

function addRevoke(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'revoke <name>', 'Revoke a key');
  withReason(withKey(command), true)
    .option('--force', 'end the grant at once, and kill the backend')
    .option('--abandon', 'with --force: do not wait until the backend is known to be gone')
    .addHelpText('after', REVOKE_HELP)
    .action(async (name: string, options: RevokeOptions) => {
      const { reason, force: isForced = false, abandon: isAbandoned = false } = options;
      if (isAbandoned && !isForced) throw usageFailure('--abandon needs --force.');
      const client = cli.client();
      const key = await findKey(client, name, options);
      const { leaseId, datacenter, phase } = key;
      const answer = await client.keys.revoke.mutate({
        leaseId,
        reason,
        datacenter,
        mode: isForced ? 'force' : 'graceful',
        abandon: isAbandoned,
      });
      if (answer.outcome === 'gone') {
        const why = isHeld(key) ? 'has ended meanwhile' : `is ${phase}`;
        throw refusal('key.not_held', `Nobody holds ${printable(name)}: it ${why}.`);
      }
      cli.show(answer, () => revokedText(printable(name), answer, isAbandoned));
    });
}

function revokedText(
  name: string,
  { outcome, stopsBy }: { outcome: string; stopsBy: string | null },
  isAbandoned: boolean,
): string {
  const until = stopsBy ?? 'its last deadline';
  if (outcome === 'revoking') {
    return `${name} is being revoked: its backend was told to stop, and is gone by ${until}.`;
  }
  return isAbandoned
    ? `${name} was revoked and is free. Its backend may run until ${until}, beside a new one.`
    : `${name} was revoked. It can be granted again when its backend is gone, by ${until} at the latest.`;
}

const SECOND_MS = 1_000;

interface ConnectOptions {
  readonly namespace: string;
  readonly tag: string;
  readonly program?: string;
  readonly arg: string[];
  readonly env: string[];
  readonly lifetime?: number;
  readonly idleStop?: number;
  readonly wait: number;
  readonly datacenter?: string;
}

const HELP = `
Without a name, a --program is started under a key with a random name, which is printed.

A key lives in one datacenter. The first connect with a --program chooses it: the --datacenter of that
connect, or else the datacenter of its controller, or else the nearest whose drones offer the program. Later connects, to any controller, find or start the
backend there. \`leasehold reservations move\` moves a key.`;

/** `leasehold connect`: the one backend of a key, started if none exists, once it is ready. */
export function addConnect(cli: Cli, parent: Command): void {
  const command = withConnect(
    cli.leaf(
      parent,
      'connect [name]',
      'Find the backend of a key, or start one, and print its address',
    ),
  );
  withAccess(command.option('--url', 'print an address for browsers alone, with a token in it'))
    .addHelpText('after', HELP)
    .action(async (name: string | undefined, options: ConnectOptions & AccessOptions) => {
      if (options.url !== true && isAccessGiven(options)) {
        throw usageFailure('--user, --expires and --may-start need --url.');
      }
      const access = options.url === true ? accessOf(options) : undefined;
      const answer = await connected(cli, { ...connectInput(name, options), access });
      cli.show(answer, () =>
        access === undefined ? connectText(answer, cli.called) : (answer.url ?? ''),
      );
      // It is connected, whatever becomes of the note.
      await noteOtherProgram(cli, answer, options.program).catch(() => undefined);
    });
}

/** A backend that runs is the answer, whatever program was asked for: a misspelt one would go unnoticed. */
async function noteOtherProgram(
  cli: Cli,
  { key, backendId, spawned, datacenter }: ConnectAnswer,
  asked: string | undefined,
): Promise<void> {
  if (spawned || asked === undefined) return;
  const { program } = await cli.client().backends.get.query({ backendId, datacenter });
  if (program === asked) return;
  cli.note(
    `${printable(key.name)} runs the program ${printable(program)}, not ${printable(asked)}: it was started before.`,
  );
}

/** Connects, and tells people meanwhile what is waited for. */
function connected(cli: Cli, input: ConnectInput): Promise<ConnectAnswer> {
  // A controller waits for the grant, and after it for readiness; then its answer may take a while.
  const client = cli.client('http', (input.waitMs ?? 0) + LIMITS.waitMsMax + 10 * SECOND_MS);
  const answer = client.keys.connect.mutate(input);
  if (cli.isJson) return answer;
  const { name, namespace = '' } = input.key ?? {};
  return tellingWhile(
    answer,
    () => lookAtStart(client, { name, namespace }, input.spawn?.program),
    { print: cli.context.stderr },
  );
}

/** `leasehold open`: a key in the browser, by a token of its own. */
export function addOpen(cli: Cli, parent: Command): void {
  const command = withConnect(
    cli.leaf(parent, 'open <name>', 'Open a key in the browser, through the gateway'),
  );
  withAccess(command.option('--print', 'only print the address')).action(
    async (name: string, options: ConnectOptions & AccessOptions) => {
      const input = { ...connectInput(name, options), access: accessOf(options) };
      const answer = await connected(cli, input);
      const { url } = answer;
      cli.show(answer, () => url ?? '');
      if (options.print !== true && !cli.isJson && url !== null) openInBrowser(url);
    },
  );
}

interface AccessOptions {
  readonly url?: true;
  readonly print?: true;
  readonly user?: string;
  readonly expires?: number;
  readonly mayStart?: true;
}

/** Who the address is for. */
function withAccess(command: Command): Command {
  withDuration(command, '--expires', {
    about: 'for how long the address works, 1h by default',
    range: [SECOND_MS, LIMITS.gatewayTokenSecondsMax * SECOND_MS],
  });
  return command
    .option('--user <name>', 'whom the backend is told, by default the user of this machine')
    .option('--may-start', 'let the address start the --program again, when it does not run');
}

function isAccessGiven({ user, expires, mayStart }: AccessOptions): boolean {
  return [user, expires, mayStart].some((value) => value !== undefined);
}

function accessOf({ user, expires, mayStart }: AccessOptions): NonNullable<ConnectInput['access']> {
  return {
    user: user ?? ownUserName(),
    expiresInSeconds: secondsOf(expires),
    mayStart: mayStart === true,
  };
}

/** What is connected to, and what is started if nothing runs. */
function withConnect(command: Command): Command {
  withDuration(command, '--lifetime', {
    about: 'stop the backend after this time',
    range: [SECOND_MS, LIMITS.lifetimeLimitSecondsMax * SECOND_MS],
  });
  withDuration(command, '--idle-stop', {
    about: 'stop the backend when nobody has used it for this time',
    range: [SECOND_MS, LIMITS.idleStopSecondsMax * SECOND_MS],
  });
  withDuration(command, '--wait', {
    about: 'how long to wait for a key whose backend is stopping',
    range: [0, LIMITS.waitMsMax],
    defaultMs: LIMITS.waitMsConnectDefault,
  });
  return withNamespace(command)
    .option('--tag <tag>', 'refuse a backend that was started under another tag', '')
    .option('--program <program>', 'the program to start if nobody holds the key')
    .option(
      '--arg <value>',
      'an argument for the program, if it allows any; repeatable',
      appendText,
      [],
    )
    .option(
      '--env <name=value>',
      'a variable for the program, if it allows it; repeatable',
      appendText,
      [],
    )
    .option('--datacenter <name>', 'the home of the key, if it has none yet');
}

function connectInput(name: string | undefined, options: ConnectOptions): ConnectInput {
  const { namespace, tag, program, arg, env, lifetime, idleStop, datacenter } = options;
  if (program === undefined && name === undefined) {
    throw usageFailure('Give a key, or a --program to start under a key with a random name.');
  }
  const isOfSpawn = [lifetime, idleStop, datacenter].some((value) => value !== undefined);
  if (program === undefined && (arg.length > 0 || env.length > 0 || isOfSpawn)) {
    throw usageFailure('--arg, --env, --lifetime, --idle-stop and --datacenter need a --program.');
  }
  return {
    // Made here, so that it is in the namespace and under the tag that were asked for.
    key: { name: name ?? randomUUID(), namespace, tag },
    spawn:
      program === undefined
        ? undefined
        : {
            program,
            args: arg,
            env: Object.fromEntries(env.map(variableOf)),
            lifetimeLimitSeconds: secondsOf(lifetime),
            idleStopSeconds: secondsOf(idleStop),
            datacenter,
          },
    waitMs: options.wait,
    waitFor: 'ready',
  };
}

function secondsOf(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.ceil(ms / SECOND_MS);
}

function variableOf(text: string): [name: string, value: string] {
  const at = text.indexOf('=');
  if (at < 1) throw usageFailure(`--env must be NAME=VALUE, not "${text}".`);
  return [text.slice(0, at), text.slice(at + 1)];
}

/** What a shell takes as it is. */
const PLAIN_WORD = /^[\w.:@%+=-]+$/u;

function openingText({ name, namespace }: ConnectAnswer['key'], called: string): string {
  const named = namespace === '' ? [name] : [name, '--namespace', namespace];
  return named.every((word) => PLAIN_WORD.test(word))
    ? `${called} open ${named.join(' ')}`
    : `${called} open NAME`;
}

/** The address alone in the first line, so that a shell can take it from there. */
function connectText(answer: ConnectAnswer, called: string): string {
  const { key, address } = answer;
  const rest = detailsText([
    ['key', printable(key.name)],
    ...(key.namespace === '' ? [] : [['namespace', printable(key.namespace)] as const]),
    ...(key.tag === '' ? [] : [['tag', printable(key.tag)] as const]),
    ['backend', `${answer.backendId}, ${answer.spawned ? 'started now' : 'was running'}`],
    ['status', answer.status],
    ['drone', answer.droneId],
    ['datacenter', answer.datacenter],
    ['fencing token', answer.fencingToken],
    // Its bare address would be refused: a browser needs a token in it.
    ...(answer.url === null ? [] : [['for browsers', openingText(key, called)] as const]),
  ]);
  return `${address ?? 'it has no address'}\n\n${rest}`;
}
