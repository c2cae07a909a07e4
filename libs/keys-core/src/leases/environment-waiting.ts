/**
 * How callers join the line for an environment: with a priority, before or after those that came earlier, and
 * superseding them if they ask for it.
 */
import { FairQueue } from '@leasehold/service-kit/fair-queue';
import { type ActEntry, type AuditEntry, insertAudit } from '../access/index.ts';
import {
  countPlaces,
  ensureLeaseRow,
  joinEnvironmentLine,
  type EnvironmentTicketRequest,
  readRunning,
  readStoppingFreezes,
  type RecordedRefusal,
  recordSuperseding,
  refuseIfSuperseded,
  revoke,
  type Supersede,
  supersedeWaiting,
  takeTurnsInLine,
  type Ticket,
  type TicketRequest,
  waitForGrant,
} from '../grants/index.ts';
import { type Role, roleAllows } from '../kernel/access.ts';
import { ERROR_CODES, LeaseError } from '../kernel/errors.ts';
import type { GrantRequest } from '../kernel/lease.ts';
import { leaseTopic, namespaceText, resourceKey } from '../kernel/resource.ts';
import { databaseFailureOf } from '../postgres/database-errors.ts';
import type { KernelStore } from '../postgres/kernel-store.ts';
import { isoOf, type Sql } from '../postgres/sql.ts';
import { REVOCATIONS_TOPIC } from './sql/revocations.ts';

/** What a request has superseded as it joined the line. */
interface Superseded {
  /** The holders of the requests that waited. */
  readonly waiting: readonly string[];
  /** The lease that was revoked; null if none was. */
  readonly leaseId: string | null;
}

/** How an environment is waited for. */
export interface WaitInOrder {
  /** Whether it stands before those that came earlier, instead of after them. */
  readonly order?: 'oldest' | 'newest' | undefined;
  /** With `waitMs`: what becomes of requests for the same action that came earlier. */
  readonly supersede?: Supersede | undefined;
  /**
   * With `waitMs`: the idempotency key of the last request of this wait, whose place or grant was lost. If that was superseded
   * meanwhile, this one is too.
   */
  readonly again?: string | undefined;
}

/** How a caller stands in the line for an environment. */
export interface Standing extends Pick<WaitInOrder, 'supersede' | 'again'> {
  readonly priority: number;
  readonly isNewestFirst: boolean;
  /** For the audit, if it supersedes anything; undefined for a coordinator, which has no right to write there. */
  readonly entry?: ActEntry | undefined;
}

/** What a caller's role is in a line: people who operate come before services. */
export function priorityOf(role: string): number {
  return roleAllows(role as Role, 'operator') ? 1 : 0;
}

type Request = GrantRequest & TicketRequest;

export type JoinForEnvironment = (
  request: Request,
  standing: Standing,
  giveUpAtMs: number,
) => Promise<Ticket | undefined>;

/** How many places in the line for one environment a caller has at most: each lasts for longer than its call. */
const PLACES_OF_CALLER_MAX = 1_000;
/** With those that have lapsed within a day: each is read by all who look at the line. */
const PLACES_KEPT_MAX = 10_000;
/** How often a join is tried while what it locks is locked by others. */
const JOIN_TRIES_MAX = 3;
/** So many of those who were superseded are named in the audit; the history has all. */
const SHOWN_MAX = 20;

/**
 * Joins lines: takes a place, or the one again that the request has there. A request that supersedes does so in the same
 * transaction, with its line of the audit, and only when it comes for the first time: repeated, it supersedes nothing newer
 * than itself. One that is frozen for longer than it waits supersedes nothing. Resolves to undefined when its key was used, or
 * when the one that it asks again for was superseded: that is its recorded answer then. Those for one environment take turns
 * here too, caller by caller, so that a crowd keeps one connection busy, not all, and waits behind itself alone.
 *
 * @throws {LeaseError} `grant.contended`: what runs is locked for long; `request.rate_limited`: its caller has too many
 * places in this line.
 */
export function createJoinForEnvironment(store: KernelStore): JoinForEnvironment {
  const lines = new Map<string, FairQueue<() => Promise<void>>>();
  const serve = async (key: string, line: FairQueue<() => Promise<void>>): Promise<void> => {
    for (let next = line.shift(); next !== undefined; next = line.shift()) await next();
    lines.delete(key);
  };
  return (request, standing, giveUpAtMs) =>
    new Promise((resolve, reject) => {
      const { principal } = request;
      const key = resourceKey(request);
      const line = lines.get(key) ?? new FairQueue();
      if (line.sizeOf(principal) >= PLACES_OF_CALLER_MAX) throw tooManyPlaces();
      line.push(principal, () =>
        joinWithin(store, request, { ...standing, giveUpAtMs }).then(resolve, reject),
      );
      if (lines.has(key)) return;
      lines.set(key, line);
      void serve(key, line);
    });
}

/** `giveUpAtMs`: until when it waits, by the clock of this process. */
type Joining = Standing & { readonly giveUpAtMs: number };

async function joinWithin(
  store: KernelStore,
  request: Request,
  joining: Joining,
): Promise<Ticket | undefined> {
  for (let triesCount = 1; ; triesCount += 1) {
    try {
      return await joinOnce(store, request, joining);
    } catch (error) {
      const failure = databaseFailureOf(error);
      // It may have been committed: those whom it has superseded are to find out at once.
      if (failure === 'lost') store.hints.notify(REVOCATIONS_TOPIC, leaseTopic(request));
      if (failure !== 'contention') throw error;
      if (triesCount < JOIN_TRIES_MAX) continue;
      throw new LeaseError('grant.contended', undefined, { cause: error });
    }
  }
}

async function joinOnce(
  store: KernelStore,
  request: Request,
  joining: Joining,
): Promise<Ticket | undefined> {
  const { supersede, again, priority, isNewestFirst, entry, giveUpAtMs } = joining;
  const asked = { ...request, action: request.tag, priority, isNewestFirst };
  const { ticket, superseded, isRefused } = await store.general.$transaction(async (tx) => {
    await takeTurnsInLine(tx, request);
    if (again !== undefined && (await refuseIfSuperseded(tx, asked, again))) {
      return { isRefused: true };
    }
    const ticket = await joinEnvironmentLine(tx, asked);
    if (ticket === undefined) return { ticket };
    // A first look refuses what is frozen.
    const isSuperseding =
      supersede !== undefined &&
      ticket.isFirst &&
      !(await isFrozenFor(tx, request, giveUpAtMs - store.clock.nowMs()));
    const superseded = isSuperseding
      ? await supersedeOthers(tx, asked, supersede, ticket)
      : undefined;
    await assertPlaceLeft(tx, request);
    if (entry !== undefined && superseded !== undefined) {
      await insertAudit(tx, auditOf(entry, asked, superseded));
    }
    return { ticket, superseded };
  });
  if (isRefused === true) store.observer.superseded('waiting', 1);
  if (superseded !== undefined) announce(store, request, superseded);
  return ticket;
}

/** @throws {LeaseError} `request.rate_limited`: then the request has not joined. */
async function assertPlaceLeft(tx: Sql<'general'>, request: Request): Promise<void> {
  const { live, kept } = await countPlaces(tx, request, PLACES_KEPT_MAX + 1);
  if (live <= PLACES_OF_CALLER_MAX && kept <= PLACES_KEPT_MAX) return;
  if (live > PLACES_OF_CALLER_MAX) throw tooManyPlaces();
  throw new LeaseError(
    'request.rate_limited',
    `At most ${String(PLACES_KEPT_MAX)} requests of one caller have waited for an environment within a day without giving up.`,
  );
}

function tooManyPlaces(): LeaseError {
  return new LeaseError(
    'request.rate_limited',
    `At most ${String(PLACES_OF_CALLER_MAX)} requests of one caller wait for an environment.`,
  );
}

/** Whether a freeze, which may be younger than the request, lasts for longer than that waits. */
async function isFrozenFor(
  tx: Sql<'general'>,
  request: GrantRequest,
  waitMs: number,
): Promise<boolean> {
  const freezes = await readStoppingFreezes(tx, [request]);
  return freezes.some(({ windowUntil, asOf }) => windowUntil - asOf >= waitMs);
}

/** @returns undefined when there was nothing to supersede. */
async function supersedeOthers(
  tx: Sql<'general'>,
  request: EnvironmentTicketRequest,
  supersede: Supersede,
  { asOf }: Ticket,
): Promise<Superseded | undefined> {
  const refusal = supersededRefusal(request, isoOf(asOf));
  const waiting: string[] = [];
  for (let isMore = true; isMore;) {
    const found = await supersedeWaiting(tx, request, refusal);
    waiting.push(...found.waiters);
    isMore = found.isMore;
  }
  // After that, so that it finds what was granted to one of them meanwhile, or to one that never waited.
  if (supersede === 'running') {
    // Waits for the very first grant of the environment, too.
    await ensureLeaseRow(tx, request);
    await waitForGrant(tx, request);
  }
  const runningId = supersede === 'running' ? await readRunning(tx, request) : undefined;
  await recordSuperseding(tx, request, refusal);
  const leaseId = runningId === undefined ? null : await stop(tx, request, runningId, refusal);
  return waiting.length === 0 && leaseId === null ? undefined : { waiting, leaseId };
}

/** Revokes what runs, gracefully. @returns its id; null when it has ended meanwhile. */
async function stop(
  tx: Sql<'general'>,
  { actor, waiter, comment }: EnvironmentTicketRequest,
  leaseId: string,
  refusal: RecordedRefusal,
): Promise<string | null> {
  const by = comment === null ? waiter : `${waiter} (${comment})`;
  const act = { leaseId, mode: 'graceful', abandon: false, actor, namespaces: null } as const;
  const detail = { superseded: refusal };
  const revoked = await revoke(tx, 'environment', [
    { ...act, reason: `superseded by ${by}`, detail },
  ]);
  return revoked.has(leaseId) ? leaseId : null;
}

/** What those get who waited. */
function supersededRefusal(
  { waiter, comment }: EnvironmentTicketRequest,
  since: string,
): RecordedRefusal {
  const code = 'environment.superseded';
  const message = `${ERROR_CODES[code].text.slice(0, -1)}: ${waiter}, at ${since}.`;
  return { error: { code, message, details: { by: waiter, byComment: comment, since } } };
}

/** What the audit says of a request that has superseded others. */
function auditOf(
  entry: ActEntry,
  { namespace, name, action, waiter }: EnvironmentTicketRequest,
  { waiting, leaseId }: Superseded,
): AuditEntry {
  return {
    ...entry,
    resource:
      leaseId === null ? `environment:${namespaceText(namespace)}/${name}` : `lease:${leaseId}`,
    detail: {
      face: 'environment',
      namespace,
      name,
      action,
      holder: waiter,
      waiting: waiting.slice(0, SHOWN_MAX),
    },
  };
}

/** Counts those who were superseded, and lets them find out at once. */
function announce(store: KernelStore, request: Request, { waiting, leaseId }: Superseded): void {
  if (leaseId !== null) store.hints.notify(REVOCATIONS_TOPIC);
  if (waiting.length > 0) store.observer.superseded('waiting', waiting.length);
  if (leaseId !== null) store.observer.superseded('running', 1);
  store.hints.notify(leaseTopic(request));
}
