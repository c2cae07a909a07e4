/** Leases, and environments, which are leases on another face. */
import { createLeasehold, type ControllerApi, type ObservedState } from '@leasehold/client';
import { FACES, type Face } from '@leasehold/keys-core';
import { Option, type Command } from 'commander';
import type { Cli } from '../cli.ts';
import type { LeaseListInput, LeaseTreeNode, LeaseView } from '../controller-api.ts';
import { type CliFailure, refusal, usageFailure } from '../failures.ts';
import {
  nothingText,
  ownFilter,
  placeOption,
  RECENT_ENVIRONMENTS,
  RECENT_GRANTS,
  recentFilter,
  withAll,
  withDatacenters,
  withDuration,
  withHolding,
  withInternal,
  withPage,
  withReason,
  withSort,
  type ActOptions,
  type GrantListOptions,
  type PageOptions,
  type Recency,
} from '../options.ts';
import {
  failingCallbackColumns,
  historyColumns,
  isHeld,
  leaseColumns,
  leaseDetails,
  type MomentOptions,
  momentText,
  poolDetails,
  queueText,
  WAITER_COLUMNS,
  waitsColumns,
  waitsText,
  whyText,
  withMoment,
} from '../output/grant-text.ts';
import { detailsText, printable, type Column } from '../output/text.ts';
import { addFreezes, addPermits, frozenText, readFreezes } from './lease-rules.ts';
import { addEnvironmentRun, addGuard, addRun } from '../run/run.ts';
import { addSteps } from '../run/steps.ts';
import { parseScope, scopeText, withScope, type Scope, type ScopeOptions } from '../scope.ts';

/** `leasehold leases`. */
export function addLeases(cli: Cli, program: Command): void {
  const parent = program
    .command('leases')
    .description('List, inspect and revoke leases, and run commands under them');
  addLs(cli, parent, LEASES);
  addShow(cli, parent, LEASES);
  addTree(cli, parent);
  addWaiters(cli, parent);
  addWaits(cli, parent);
  addWhy(cli, parent, LEASES);
  addFailingCallbacks(cli, parent);
  addRevoke(cli, parent, LEASES);
  addRenewal(cli, parent, {
    router: 'leases',
    argument: '<scope>',
    descriptions: {
      blockRenewal:
        'Let a lease expire: it is not renewed any more, and its holder stops by its deadline',
      allowRenewal:
        'Undo block-renewal, if the lease has not expired; a holder that has stopped does not continue',
    },
    withOptions: (command) => withLeaseId(withScope(command)),
    find: async (client, text, options: OneOptions) => {
      const { scope, lease } = await findOne(LEASES, client, text, options);
      const { datacenter } = options;
      const { leaseId, holder, mode } = lease;
      const name = scopeText(scope);
      const shownAs = mode === null ? name : `${name} by ${printable(holder)}`;
      return { leaseId, datacenter, shownAs };
    },
  });
  addHistory(cli, parent, LEASES);
  addWatch(cli, parent, LEASES);
  addRun(cli, parent);
  addGuard(cli, parent);
  addSteps(cli, parent);
  addPermits(cli, parent);
}

/** `leasehold env`. */
export function addEnvironments(cli: Cli, program: Command): void {
  const parent = program
    .command('env')
    .description('List, inspect, revoke and freeze environments, and run commands in them');
  addLs(cli, parent, ENVIRONMENTS);
  addShow(cli, parent, ENVIRONMENTS);
  addWhy(cli, parent, ENVIRONMENTS);
  addRevoke(cli, parent, ENVIRONMENTS);
  addHistory(cli, parent, ENVIRONMENTS);
  addWatch(cli, parent, ENVIRONMENTS);
  addEnvironmentRun(cli, parent);
  addFreezes(cli, parent);
}

type LsOptions = LeaseListInput & GrantListOptions & { readonly children: boolean };

function addLs(cli: Cli, parent: Command, { noun, router, recency }: LeaseFace): void {
  const about = noun === 'lease' ? 'and for how much longer' : 'and for which action';
  const command = cli.leaf(parent, 'ls', `List ${router}, who holds them, ${about}`);
  withAll(withDatacenters(withPage(command)), recency)
    .option('-n, --namespace <namespace>', 'in this namespace and its children')
    .option('--no-children', 'not in its children; without --namespace: of the root alone')
    .option('--name <name>', 'of this key')
    .option('--prefix <text>', 'whose key begins with this')
    .option('--contains <text>', 'whose name as it is printed contains this, whatever its case');
  withSort(withInternal(withHolding(command))).action(async (options: LsOptions) => {
    const { all, desc, children, internal, ...given } = options;
    // The API lists all namespaces where none is named.
    const same = children ? given : { ...given, namespace: given.namespace ?? '' };
    const client = cli.client();
    const { datacenter } = options;
    const freezes = noun === 'lease' ? [] : await readFreezes(client, datacenter);
    const page = await client[router].list.query({
      ...same,
      ...recentFilter({ ...same, all }, recency),
      ...ownFilter(internal, same.namespace),
      includeChildren: children,
      direction: desc === true ? 'desc' : undefined,
    });
    const empty = nothingText(router, options, recency);
    const frozen = (lease: LeaseView): string => frozenText(freezes, lease);
    cli.showPage(page, empty, leaseColumns(noun, datacenter, frozen), freezes);
  });
}

function addShow(cli: Cli, parent: Command, face: LeaseFace): void {
  const { noun, argument, router } = face;
  withMoment(withScope(cli.leaf(parent, `show ${argument}`, `Show one ${noun}`))).action(
    async (text: string, { at, ...options }: ScopeOptions & MomentOptions) => {
      if (at !== undefined) {
        const scope = parseScope(text, options.namespace);
        const input = { ...scope, datacenter: options.datacenter, at };
        const moment = await cli.client()[router].at.query(input);
        cli.show(moment, () => momentText(noun, scopeText(scope), moment));
        return;
      }
      if (noun === 'environment') {
        await showEnvironment(cli, face, text, options);
        return;
      }
      const { lease } = await findLease(face, cli.client(), text, options);
      const { pool } = lease;
      cli.show(lease, () =>
        pool === null ? leaseDetails(noun, lease, '') : poolDetails(lease, pool),
      );
    },
  );
}

/**
 * Who holds an environment, or held it last, and who waits: in a freeze also for one that nobody has held for long.
 * @throws {CliFailure} `environment.not_found`: nobody waits for it either.
 */
async function showEnvironment(
  cli: Cli,
  face: LeaseFace,
  text: string,
  { namespace, datacenter }: ScopeOptions,
): Promise<void> {
  const client = cli.client();
  const scope = parseScope(text, namespace);
  const [lease, freezes, queue] = await Promise.all([
    client.environments.get.query({ ...scope, datacenter }),
    readFreezes(client, datacenter),
    client.environments.queue.query({ ...scope, datacenter }),
  ]);
  const waiting = queueText(queue);
  if (lease === null && queue.waiting.length === 0) {
    throw notFound(face, scope, placeOption(datacenter));
  }
  // All freezes are those of the datacenter that was asked.
  const frozen = frozenText(freezes, { datacenter: freezes[0]?.datacenter ?? '', ...scope });
  cli.show(lease === null ? { ...scope, phase: 'free', queue } : { ...lease, queue }, () =>
    lease === null
      ? `${detailsText([
          [face.noun, scopeText(scope)],
          ['phase', 'free, nobody has held it lately'],
          ...(frozen === '' ? [] : [['frozen', frozen] as const]),
        ])}${waiting}`
      : `${leaseDetails(face.noun, lease, frozen)}${waiting}`,
  );
}

const TREE_COLUMNS: readonly Column<LeaseTreeNode>[] = [
  { head: 'namespace', text: nameInTree },
  ...(['held', 'expiring', 'expired', 'free', 'waiters'] as const).map(
    (count): Column<LeaseTreeNode> => ({
      head: count,
      text: (node) => String(node[count]),
      align: 'right',
    }),
  ),
];

type TreeOptions = ActOptions & { readonly internal?: boolean };

function addTree(cli: Cli, parent: Command): void {
  const command = withDatacenters(
    cli.leaf(parent, 'tree [namespace]', 'Count leases by namespace, children included'),
  );
  withInternal(command).action(async (namespace: string | undefined, options: TreeOptions) => {
    const { datacenter, internal } = options;
    const own = ownFilter(internal, namespace);
    const tree = await cli.client().leases.tree.query({ namespace, datacenter, ...own });
    cli.showPage(tree, 'No leases.', TREE_COLUMNS);
  });
}

/** The whole name, so that it can be grepped and pasted, indented by its depth. */
function nameInTree({ namespace }: LeaseTreeNode): string {
  if (namespace === '') return '(root)';
  return `${'  '.repeat(namespace.split('.').length)}${printable(namespace)}`;
}

type ScopePageOptions = PageOptions & Omit<ScopeOptions, 'reason'>;

function addWaiters(cli: Cli, parent: Command): void {
  const about = 'List who waits for a lease, first in line first';
  withPage(withScope(cli.leaf(parent, 'waiters <scope>', about))).action(
    async (text: string, { namespace, ...options }: ScopePageOptions) => {
      const scope = parseScope(text, namespace);
      const page = await cli.client().leases.waiters.query({ ...scope, ...options });
      cli.showPage(page, 'Nobody waits.', WAITER_COLUMNS);
    },
  );
}

const WAITS_HELP = `
A line for each waiter: what it waits for, who holds that and what the first holder that waits itself is waiting for.
Where two wait for each other, each is in the line of the other. For one lease alone, --namespace and \`waiters\`.`;

type WaitsOptions = PageOptions &
  ActOptions & { readonly namespace?: string; readonly face?: Face };

function addWaits(cli: Cli, parent: Command): void {
  const about = 'List who waits for whom, leases, environments and keys, the longest wait first';
  const command = withDatacenters(withPage(cli.leaf(parent, 'waits', about)));
  command
    .option('-n, --namespace <namespace>', 'in this namespace and its children')
    .addOption(new Option('--face <face>', 'only these; all by default').choices(FACES))
    .addHelpText('after', WAITS_HELP)
    .action(async ({ face, ...options }: WaitsOptions) => {
      const faces = face === undefined ? [...FACES] : [face];
      const page = await cli.client().leases.contention.query({ ...options, faces });
      cli.showPage(page, 'Nobody waits.', waitsColumns(options.datacenter));
    });
}

const HOUR_MS = 60 * 60_000;
const MINUTE_MS = 60_000;

const WHY_HELP = `
Who holds it and who waits now; who made others wait, and for how long all waits together; and which leases are taken in
opposite orders: one while another is held, and that one while the first is held. Their holders can wait for each other
forever. Without an argument: what was waited for most.`;

type WhyOptions = ScopeOptions & { readonly since: number };

/** Who made others wait. */
function addWhy(cli: Cli, parent: Command, { noun, aNoun, argument, router }: LeaseFace): void {
  const named = noun === 'lease' ? '[scope]' : argument;
  const command = withScope(cli.leaf(parent, `why ${named}`, `Show why callers wait for ${aNoun}`));
  withDuration(command, '--since', {
    about: 'how far back to look',
    range: [MINUTE_MS, 24 * HOUR_MS],
    defaultMs: HOUR_MS,
  })
    .addHelpText('after', WHY_HELP)
    .action(async (text: string | undefined, { namespace, datacenter, since }: WhyOptions) => {
      const asked = { windowMinutes: Math.ceil(since / MINUTE_MS), datacenter };
      const client = cli.client();
      if (text === undefined) {
        const waits = await client.leases.mostWaited.query({ ...asked, namespace });
        cli.show(waits, () => waitsText(waits, cli.listing.format));
        return;
      }
      const why = await client[router].why.query({ ...parseScope(text, namespace), ...asked });
      cli.show(why, () => whyText(why, cli.listing.format));
    });
}

function addFailingCallbacks(cli: Cli, parent: Command): void {
  const about = 'List the callbacks of expired leases that fail, with their errors';
  const command = withDatacenters(withPage(cli.leaf(parent, 'failing-callbacks', about)));
  command
    .option('-n, --namespace <namespace>', 'in this namespace and its children')
    .action(async (options: PageOptions & ActOptions & { readonly namespace?: string }) => {
      const page = await cli.client().leases.failingCallbacks.query(options);
      const columns = failingCallbackColumns(page.asOf, options.datacenter);
      cli.showPage(page, 'No callback fails.', columns);
    });
}

function addHistory(cli: Cli, parent: Command, face: LeaseFace): void {
  const { noun, aNoun, router, argument } = face;
  const empty = `Nothing has happened to this ${noun}, as far back as events are kept.`;
  const about = `Show what happened to ${aNoun}`;
  withPage(withScope(cli.leaf(parent, `history ${argument}`, about))).action(
    async (text: string, { namespace, ...options }: ScopePageOptions) => {
      const scope = parseScope(text, namespace);
      const client = cli.client()[router];
      const [page, newest] = await Promise.all([
        client.history.query({ ...scope, ...options }),
        client.get.query({ ...scope, datacenter: options.datacenter }),
      ]);
      cli.showPage(page, empty, historyColumns(page.items, newest));
    },
  );
}

const WATCH_HELP = `
A line for the present holder, and for each that follows, or for new metadata. It goes on after a lost connection, until
Ctrl-C, which ends it with code 0. When changes follow each other closely, only the newest is shown. Where several hold it
at once, the others follow on lines of their own.`;

/** Who holds it, and who after that. */
function addWatch(cli: Cli, parent: Command, { noun, aNoun, argument, router }: LeaseFace): void {
  const about = `Show who holds ${aNoun}, whenever that changes`;
  cli
    .leaf(parent, `watch ${argument}`, about)
    .option('-n, --namespace <namespace>', 'its namespace; the whole argument is then its key')
    .addHelpText('after', WATCH_HELP)
    .action(async (text: string, { namespace }: { readonly namespace?: string }) => {
      const scope = parseScope(text, namespace);
      // Over HTTP first, which fails at once when no controller answers. Until then a signal ends the process.
      await cli.client()[router].get.query(scope);
      const signal = cli.context.signalWhileRead();
      const { urls, token } = cli.access();
      await using leasehold = createLeasehold({ url: urls, token });
      const segments = scope.namespace === '' ? [] : scope.namespace.split('.');
      const observed = { face: noun, namespace: segments, key: scope.name };
      for await (const holding of leasehold.observe(observed, { signal })) {
        cli.show({ ...scope, holding }, () => holdingText(holding));
      }
    });
}

function holdingText(holding: ObservedState): string {
  if (holding === null) return 'free';
  const { holder, since, fencingToken, leaseId, metadata, sharing } = holding;
  const said = metadata === null ? '' : `  ${printable(JSON.stringify(metadata))}`;
  const held = `held  ${since}  by ${printable(holder)}  token ${fencingToken}  ${leaseId}${said}`;
  if (sharing === undefined) return held;
  const { mode, holderCount, others } = sharing;
  const more = holderCount - 1 - others.length;
  return [
    `${held}  ${mode}, ${String(holderCount)} in all`,
    ...others.map(
      (other) =>
        `      ${other.since}  by ${printable(other.holder)}  token ${other.fencingToken}  ${other.leaseId}  ${other.mode}`,
    ),
    ...(more > 0 ? [`      and ${String(more)} more`] : []),
  ].join('\n');
}

/** How leases and environments are called on the command line, and where they are queried. */
interface LeaseFace {
  readonly noun: 'lease' | 'environment';
  readonly aNoun: string;
  readonly router: 'leases' | 'environments';
  /** The group of its commands. */
  readonly group: 'leases' | 'env';
  readonly argument: string;
  readonly recency: Recency;
}

const LEASES: LeaseFace = {
  noun: 'lease',
  aNoun: 'a lease',
  router: 'leases',
  group: 'leases',
  argument: '<scope>',
  recency: RECENT_GRANTS,
};

const ENVIRONMENTS: LeaseFace = {
  noun: 'environment',
  aNoun: 'an environment',
  router: 'environments',
  group: 'env',
  argument: '<environment>',
  recency: RECENT_ENVIRONMENTS,
};

/**
 * The lease or environment that an argument and its options name.
 * @throws {CliFailure} `lease.not_found`, `environment.not_found`: not held for long, or not visible to the caller.
 */
async function findLease(
  face: LeaseFace,
  client: ControllerApi,
  text: string,
  { namespace, datacenter }: ScopeOptions,
): Promise<{ scope: Scope; lease: LeaseView }> {
  const scope = parseScope(text, namespace);
  const lease = await client[face.router].get.query({ ...scope, datacenter });
  if (lease !== null) return { scope, lease };
  throw notFound(face, scope, placeOption(datacenter));
}

/** The refusal for what nobody has held for so long that only its history is left, or ever. */
function notFound({ noun, group }: LeaseFace, scope: Scope, place: string): CliFailure {
  return refusal(
    `${noun}.not_found`,
    `There is no ${noun} ${scopeText(scope)}: nobody holds it, or has lately.`,
    `${namespaceHint({ noun, group }, scope, place)}Names are compared byte for byte. \`leasehold ${group} ls --all${place}\` shows all.`,
  );
}

/** Of a command that acts on one lease; {@link withLeaseId} adds it. */
interface OneOptions extends ScopeOptions {
  readonly leaseId?: string;
}

/** Adds `--lease-id`. */
function withLeaseId(command: Command): Command {
  return command.option('--lease-id <id>', 'of this holder; needed where several hold it at once');
}

/**
 * The lease that is acted on: of several that hold it at once, the one that is named.
 * @throws {CliFailure} `cli.usage` if none is named, `lease.not_held` if it is not there.
 */
async function findOne(
  face: LeaseFace,
  client: ControllerApi,
  text: string,
  options: OneOptions,
): Promise<{ scope: Scope; lease: LeaseView }> {
  const found = await findLease(face, client, text, options);
  const { scope, lease } = found;
  const { leaseId, datacenter } = options;
  const { used = 1 } = lease.pool ?? {};
  if (leaseId === undefined) {
    if (used <= 1) return found;
    throw usageFailure(
      `${String(used)} hold ${scopeText(scope)} at once: --lease-id must name the lease of one of them.`,
      `\`leasehold ${face.group} show ${scopeText(scope)}${placeOption(datacenter)}\` lists them.`,
    );
  }
  const of = { ...scope, includeChildren: false, leaseId, limit: 1, datacenter };
  const [named] = (await client[face.router].list.query(of)).items;
  if (named !== undefined) return { scope, lease: named };
  throw refusal(
    `${face.noun}.not_held`,
    `Nobody holds ${scopeText(scope)} with the lease id ${printable(leaseId)}.`,
  );
}

/** A name without a namespace is often that of a namespace. */
function namespaceHint(
  { noun, group }: Pick<LeaseFace, 'noun' | 'group'>,
  { namespace, name }: Scope,
  place: string,
): string {
  if (namespace !== '') return '';
  const text = printable(name);
  return `${noun === 'lease' ? 'A lease' : 'An environment'} is NAMESPACE/KEY: if ${text} is a namespace, \`leasehold ${group} ls --namespace ${text}${place}\` lists what is in it. `;
}

interface RevokeOptions extends OneOptions {
  readonly reason: string;
  readonly force?: boolean;
}

const HELP = `
Without --force, the lease is not renewed any more and its holder is told to stop. It is free when
the holder has released it, or when it has expired.

--force ends the grant at once, and the lease is free: no renewal, release or fenced transaction of
it succeeds any more. A connected holder is notified. One that cannot be reached may continue to work
until the time that is printed. Only the fencing token distinguishes its work from that of the next holder.`;

const HELP_OF_SEVERAL = `

Where several hold a lease at once, by permits or shared, --lease-id names the one whose lease is revoked.`;

/** `leasehold leases revoke` and `leasehold env revoke`. */
function addRevoke(cli: Cli, parent: Command, face: LeaseFace): void {
  const { noun, aNoun, router, argument } = face;
  const command = cli.leaf(parent, `revoke ${argument}`, `Revoke ${aNoun}`);
  const withScopes = noun === 'lease' ? withLeaseId(withScope(command)) : withScope(command);
  withReason(withScopes, true)
    .option('--force', 'end the grant at once, without asking its holder')
    .addHelpText('after', noun === 'lease' ? `${HELP}${HELP_OF_SEVERAL}` : HELP)
    .action(async (text: string, options: RevokeOptions) => {
      const client = cli.client();
      const { scope, lease } = await findOne(face, client, text, options);
      const { force, reason, datacenter } = options;
      const mode = force === true ? 'force' : 'graceful';
      const { leaseId } = lease;
      const answer = await client[router].revoke.mutate({ leaseId, mode, reason, datacenter });
      if (answer.outcome === 'gone') {
        const why = isHeld(lease) ? 'has ended meanwhile' : `is ${lease.phase}`;
        throw refusal(`${noun}.not_held`, `Nobody holds ${scopeText(scope)}: it ${why}.`);
      }
      cli.show(answer, () => revokedText(scope, lease, answer));
    });
}

/** What has changed, and until when the former holder may still act. */
function revokedText(
  scope: Scope,
  { holder, mode }: LeaseView,
  { outcome, stopsBy }: { readonly outcome: string; readonly stopsBy: string | null },
): string {
  const until = stopsBy ?? 'its last deadline';
  if (mode !== null) {
    return outcome === 'revoking'
      ? `${printable(holder)} was told to stop: its lease of ${scopeText(scope)} ends by ${until}.`
      : `${printable(holder)} no longer holds ${scopeText(scope)}: its lease was revoked. If it cannot be reached, it may act until ${until}.`;
  }
  return outcome === 'revoking'
    ? `${scopeText(scope)} is being revoked: ${printable(holder)} was told to stop, and it is free by ${until}.`
    : `${scopeText(scope)} was revoked and is free. If ${printable(holder)} cannot be reached, it may act until ${until}.`;
}

const ACTS = { blockRenewal: 'block-renewal', allowRenewal: 'allow-renewal' } as const;
type RenewalAct = keyof typeof ACTS;

/** What the two commands are about. */
interface Renewable<Options> {
  readonly router: 'keys' | 'leases';
  /** The argument of the commands. */
  readonly argument: string;
  readonly descriptions: Readonly<Record<RenewalAct, string>>;
  /** Adds the options with which it is found. */
  readonly withOptions: (command: Command) => Command;
  readonly find: (
    client: ControllerApi,
    text: string,
    options: Options,
  ) => Promise<{ leaseId: string; datacenter?: string | undefined; shownAs: string }>;
}

/** Adds `block-renewal` and `allow-renewal`: an act and its reverse, on keys and on leases. */
export function addRenewal<Options extends ActOptions>(
  cli: Cli,
  parent: Command,
  { router, argument, descriptions, withOptions, find }: Renewable<Options>,
): void {
  for (const act of ['blockRenewal', 'allowRenewal'] as const) {
    const command = cli.leaf(parent, `${ACTS[act]} ${argument}`, descriptions[act]);
    withReason(withOptions(command), false).action(async (text: string, options: Options) => {
      const client = cli.client();
      const { leaseId, datacenter, shownAs } = await find(client, text, options);
      const { reason } = options;
      const answer = await client[router][act].mutate({ leaseId, reason, datacenter });
      cli.show(answer, () => renewalText(act, shownAs, answer.changed));
    });
  }
}

function renewalText(act: RenewalAct, name: string, changed: boolean): string {
  if (!changed) {
    const state = act === 'blockRenewal' ? 'blocked' : 'allowed';
    return `Nothing changed: renewal of ${name} was ${state} already, or nobody holds it.`;
  }
  return act === 'blockRenewal'
    ? `${name} is not renewed any more, and will expire.`
    : `${name} may be renewed again.`;
}
