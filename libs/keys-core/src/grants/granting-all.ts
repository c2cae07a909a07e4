/** Requests for several leases: granted together, refused with the lease that stands in the way, or tried again. */
import { LeaseError } from '../kernel/errors.ts';
import type { Grant, GrantOutcome, GrantRequest, LeaseRow } from '../kernel/lease.ts';
import { leaseTopic, namespaceText } from '../kernel/resource.ts';
import { databaseFailureOf, sqlStateOf } from '../postgres/database-errors.ts';
import { type KernelStore, timed } from '../postgres/kernel-store.ts';
import type { Sql } from '../postgres/sql.ts';
import { laterToken } from '../postgres/witness/witness-stamp.ts';
import { createCoalescer } from './coalesce.ts';
import {
  countRefusal,
  findLostGrants,
  type FoundRefusal,
  GRANT_TRIES_MAX,
  grantedOutcome,
  isOverstayed,
  lookAtRefusals,
  prepareGrants,
  refusedOutcome,
  SLOW_LANE_LOCK_TIMEOUT_MS,
  watchClock,
} from './granting.ts';
import { isForSlot, judge, type LastTry, slotOf, type Verdict } from './pooling.ts';
import type { Granted } from './sql/grant-rows.ts';
import { grantAll, NOT_ALL } from './sql/grant-all.ts';
import {
  assertTableIsOpen,
  guardNow,
  limitLockWait,
  LOCK_NOT_AVAILABLE,
  readClock,
} from './sql/guard.ts';
import { type AskedPool, openPools } from './sql/open-pools.ts';
import { grantSlots } from './sql/pools.ts';
import { keyText } from './sql/requests.ts';

/** How often a statement is sent: the first tries may find that a lease is a pool, and that it is not there yet. */
const TRIES_MAX = 6;
const TRIES_WITHIN_MAX = 3;
const REQUESTS_IN_FLIGHT_MAX = 4;
/** Of 64 requests each at most. */
const GROUPS_PER_LOOK_MAX = 16;
const QUEUE_MAX = 10_000;

/** What became of a request for several leases. */
export type GrantAllOutcome =
  /** In the order of the requests. */
  | {
      readonly outcome: 'granted';
      readonly grants: readonly Grant[];
      /** As of one grant: see {@link GrantOutcome}. */
      readonly isSlot?: true | undefined;
    }
  | Extract<GrantOutcome, { outcome: 'held' | 'queued' | 'recorded' }>;

/** Which lease stands in the way, by its place among the requests, and why. */
export type RefusedAll = Extract<GrantOutcome, { outcome: 'held' | 'queued' }> & {
  readonly place: number;
};

/** Leases that one caller wants together; the first request alone carries the idempotency key. Never empty. */
export type GrantRequests = readonly [GrantRequest, ...GrantRequest[]];

export interface GroupGranter {
  /**
   * Grants all of them, or reports what stands in the way of one.
   * @throws {LeaseError} `grant.hold_off`, `grant.contended`, `store.unavailable`, `request.outcome_unknown`,
   * `request.rate_limited`; `lease.permits_not_declared`; `request.invalid` for a mode that one of them does not have, and
   * for more permits than a namespace has in all.
   */
  grantAll(requests: GrantRequests, signal?: AbortSignal): Promise<GrantAllOutcome>;
  /**
   * Why they would not all be granted now, by a plain read; undefined when they may be.
   * @throws {LeaseError} `grant.hold_off`; as {@link grantAll} for what is never granted.
   */
  refusalOfAll(requests: GrantRequests): Promise<RefusedAll | { outcome: 'recorded' } | undefined>;
}

export function createGroupGranter(store: KernelStore): GroupGranter {
  // Each in a statement of its own, and few at once: a request may take as many rows as a whole batch.
  const grants = createCoalescer<GrantRequests, GrantAllOutcome>({
    run: (groups) => Promise.all(groups.map((requests) => grantTogether(store, requests))),
    keysOf: ([{ principal, idempotencyKey, leaseId }]) => [
      idempotencyKey === undefined ? leaseId : keyText({ principal, idempotencyKey }),
    ],
    batchSizeMax: 1,
    inFlightMax: REQUESTS_IN_FLIGHT_MAX,
    queueMax: QUEUE_MAX,
  });
  // One statement for all that look at the same time, as after a hint in a line that many are in.
  const looks = createCoalescer<GrantRequests, readonly Found[]>({
    async run(groups) {
      const found = await look(store, store.transitions, groups.flat());
      let seenCount = 0;
      return groups.map(({ length }) => found.slice(seenCount, (seenCount += length)));
    },
    keysOf: () => [],
    batchSizeMax: GROUPS_PER_LOOK_MAX,
    inFlightMax: 1,
    queueMax: QUEUE_MAX,
    isGathering: true,
  });
  return {
    grantAll: (requests, signal) => grants.submit(requests, signal),
    refusalOfAll: async (requests) => refusalOfAll(store, await looks.submit(requests)),
  };
}

async function grantTogether(
  store: KernelStore,
  requests: GrantRequests,
): Promise<GrantAllOutcome> {
  await prepareGrants(store, requests);
  let wanted: readonly GrantRequest[] = requests;
  for (
    let tries = 1, contended = 0;
    tries <= TRIES_MAX && contended < GRANT_TRIES_MAX;
    tries += 1
  ) {
    const lastTry: LastTry = { overstayed: [] };
    const grants = await tryTogether(store, wanted, { mayWait: contended > 0, lastTry });
    if (grants !== undefined) {
      wakeBehind(store, wanted);
      return { outcome: 'granted', grants };
    }
    const found = await look(store, store.transitions, wanted, lastTry);
    const isReady = await makeReady(store, store.transitions, { wanted, found });
    wanted = found.map(({ request }) => request);
    if (isReady) contended += 1;
    const refused = refusalOfAll(store, found, contended === GRANT_TRIES_MAX);
    if (refused !== undefined) return refused;
  }
  throw new LeaseError('grant.contended');
}

/** In the lines of pools there may be room for the next one beside it. */
function wakeBehind(store: KernelStore, requests: readonly GrantRequest[]): void {
  const slots = requests.filter((one) => isForSlot(one) && one.isQueued === true);
  store.hints.notify(...slots.map(leaseTopic));
}

/**
 * One try: at first it passes over locked rows, later it waits a little for each.
 * @throws {LeaseError} `store.unavailable` when it is the table that is locked.
 */
async function tryTogether(
  store: KernelStore,
  requests: readonly GrantRequest[],
  { mayWait, lastTry }: { readonly mayWait: boolean; readonly lastTry: LastTry },
): Promise<Grant[] | undefined> {
  const sentAtMs = store.clock.nowMs();
  let granted: Granted;
  try {
    granted = await timed(store, 'grant', () =>
      mayWait ? waitAndGrant(store, requests, lastTry) : grantAtOnce(store, requests, lastTry),
    );
  } catch (error) {
    if (sqlStateOf(error) === LOCK_NOT_AVAILABLE) await assertTableIsOpen(store, error);
    const failure = databaseFailureOf(error);
    if (isNotAll(error) || failure === 'contention') return undefined;
    if (failure === 'lost') return findLost(store, requests, error);
    throw error;
  }
  const { grants, seen } = granted;
  store.witness.saw(seen);
  watchClock(store, grants.values(), sentAtMs);
  return inOrder(store, requests, grants);
}

function grantAtOnce(
  store: KernelStore,
  requests: readonly GrantRequest[],
  lastTry: LastTry,
): Promise<Granted> {
  const { transitions } = store;
  const how = { onLocked: 'skip', lastTry } as const;
  return requests.some(isForSlot)
    ? transitions.$transaction((tx) => grantBoth(store, tx, requests, how))
    : grantBoth(store, transitions, requests, how);
}

function waitAndGrant(
  store: KernelStore,
  requests: readonly GrantRequest[],
  lastTry: LastTry,
): Promise<Granted> {
  return store.slowLane.$transaction(async (tx) => {
    await limitLockWait(tx, SLOW_LANE_LOCK_TIMEOUT_MS);
    await readClock(store, tx);
    return grantBoth(store, tx, requests, { onLocked: 'wait', lastTry });
  });
}

/** Some of the leases were granted, and not the others: the transaction must be rolled back. */
class NotAll extends LeaseError {
  constructor(cause?: unknown) {
    super('grant.contended', undefined, { cause });
  }
}

function isNotAll(error: unknown): boolean {
  return error instanceof NotAll || sqlStateOf(error) === NOT_ALL;
}

/**
 * Grants slots of pools by one statement, and the leases that one holds at a time by another. Where there are slots it
 * must run in a transaction. No grants in the answer: nothing was changed.
 * @throws {NotAll} and a failure with the state `NOT_ALL`.
 */
async function grantBoth(
  store: KernelStore,
  sql: Sql<'guests' | 'slowLane' | 'transitions'>,
  requests: readonly GrantRequest[],
  { onLocked, lastTry }: { readonly onLocked: 'skip' | 'wait'; readonly lastTry: LastTry },
): Promise<Granted> {
  const slots = requests.filter(isForSlot);
  const alone = requests.filter((request) => !isForSlot(request));
  const leaseCount = requests.length;
  const how = () => ({ guard: guardNow(store), onLocked, leaseCount });
  if (slots.length === 0) return grantAll(sql, alone, how());
  const pooled = await grantSlots(sql, slots, how());
  lastTry.overstayed = pooled.overstayed;
  if (pooled.grants.size === 0) return pooled;
  if (pooled.grants.size < slots.length) throw new NotAll();
  if (alone.length === 0) return pooled;
  const others = await grantAll(sql, alone, how());
  if (others.grants.size < alone.length) throw new NotAll();
  const fencingToken = laterToken(pooled.seen.fencingToken ?? '0', others.seen.fencingToken ?? '0');
  return {
    grants: new Map([...pooled.grants, ...others.grants]),
    seen: { ...others.seen, fencingToken },
  };
}

/** A request as it is to be sent again, of a slot if the lease is a pool, and why it was not granted. */
interface Found {
  readonly request: GrantRequest;
  /** Undefined if nothing is in its way, or its pool is not there yet. */
  readonly verdict: Verdict | undefined;
  readonly missing: readonly AskedPool[];
  /** Of a slot: how many may hold keys of its namespace together; null for no limit. */
  readonly total: number | null;
  /** Whether its last holder keeps its row locked after its time. */
  readonly overstayed: LeaseRow | undefined;
}

/** Finds what stands in the way of each request. Locks nothing. */
async function look(
  store: KernelStore,
  sql: Sql<'guests' | 'transitions'>,
  requests: readonly GrantRequest[],
  lastTry?: LastTry,
): Promise<Found[]> {
  const refusals = await lookAtRefusals(store, sql, requests);
  const found = requests.map((request, place) => foundOf(store, request, refusals[place]));
  const slots = found.flatMap(({ request, verdict }) =>
    isForSlot(request) && verdict === undefined ? request : [],
  );
  if (slots.length === 0) return found;
  const { verdicts, missing, totals } = await judge(store, sql, slots, lastTry?.overstayed);
  return found.map((one) =>
    isForSlot(one.request) && one.verdict === undefined
      ? {
          ...one,
          verdict: verdicts.get(one.request.leaseId),
          missing: missing.filter(({ namespace }) => namespace === one.request.namespace),
          total: totals.get(one.request.leaseId) ?? null,
        }
      : one,
  );
}

/** Without a verdict: it is for a slot, or may be granted. */
function foundOf(
  store: KernelStore,
  request: GrantRequest,
  refusal: FoundRefusal | undefined,
): Found {
  const row = refusal?.row;
  const overstayed = row !== undefined && isOverstayed(row) ? row : undefined;
  const one = { request, verdict: undefined, missing: [], total: null, overstayed };
  if (isForSlot(request)) return { ...one, overstayed: undefined };
  try {
    const refused = refusedOutcome(store, refusal);
    if (refused?.outcome !== 'pooled') return { ...one, verdict: refused };
    return { ...one, request: slotOf(request, refused.kind), overstayed: undefined };
  } catch (error) {
    if (!(error instanceof LeaseError)) throw error;
    return { ...one, verdict: error };
  }
}

/**
 * Opens the pools that are not there yet. @returns whether nothing had to be done before the next try.
 * @throws {LeaseError} `grant.contended` while a declaration is being changed for longer than the connection waits.
 */
async function makeReady(
  store: KernelStore,
  sql: Sql<'guests' | 'transitions'>,
  { wanted, found }: { readonly wanted: readonly GrantRequest[]; readonly found: readonly Found[] },
): Promise<boolean> {
  const missing = found.flatMap((one) => one.missing);
  if (missing.length > 0) {
    const how = { guard: guardNow(store), onLocked: 'wait' } as const;
    await openPools(sql, missing, how).catch((cause: unknown) => {
      if (databaseFailureOf(cause) !== 'contention') throw cause;
      throw new LeaseError('grant.contended', undefined, { cause });
    });
  }
  return missing.length === 0 && found.every(({ request }, place) => request === wanted[place]);
}

/**
 * Opens the pools that requests need, before a transaction that stays open because callers' code runs in it: all others
 * would wait for the own row of a namespace that it inserts. @returns the requests as they are to be sent, for slots if
 * the leases are pools.
 */
export async function preparePools(
  store: KernelStore,
  requests: GrantRequests,
): Promise<GrantRequests> {
  const found = await look(store, store.transitions, requests);
  await makeReady(store, store.transitions, { wanted: requests, found });
  const [first = requests[0], ...others] = found.map(({ request }) => request);
  return [first, ...others];
}

/**
 * Why those are refused whose tries have all met a lock or a change: see {@link refusalOfAll}. @returns undefined for no
 * reason that is known.
 * @throws {LeaseError} of leases that cannot be held as they are wanted, with its place if there are several.
 */
export async function refusalAtLast(
  store: KernelStore,
  requests: GrantRequests,
  lastTry: LastTry,
): Promise<RefusedAll | { outcome: 'recorded' } | undefined> {
  const found = await look(store, store.transitions, requests, lastTry);
  const [one, ...others] = found;
  if (one?.verdict instanceof LeaseError && others.length === 0) throw one.verdict;
  return refusalOfAll(store, found, true);
}

/**
 * One try in a transaction of the caller's, as `grantWithin`. @returns undefined when they were not all free: nothing is
 * granted then.
 * @throws {LeaseError} `request.invalid` for more permits than a namespace has in all; `grant.contended` when some were
 * granted, and one was not: the transaction must be tried again.
 */
export async function grantAllWithin(
  store: KernelStore,
  tx: Sql<'guests'>,
  requests: GrantRequests,
  lastTry: LastTry = { overstayed: [] },
): Promise<Grant[] | undefined> {
  lastTry.overstayed = [];
  await readClock(store, tx);
  let wanted: readonly GrantRequest[] = requests;
  for (let tries = 1; tries <= TRIES_WITHIN_MAX; tries += 1) {
    const sentAtMs = store.clock.nowMs();
    const how = { onLocked: 'wait', lastTry } as const;
    const { grants } = await grantBoth(store, tx, wanted, how).catch((error: unknown) => {
      throw sqlStateOf(error) === NOT_ALL ? new NotAll(error) : error;
    });
    watchClock(store, grants.values(), sentAtMs);
    const all = inOrder(store, wanted, grants);
    if (all !== undefined) return all;
    const found = await look(store, tx, wanted);
    assertWithinTotals(found);
    if (await makeReady(store, tx, { wanted, found })) return undefined;
    wanted = found.map(({ request }) => request);
  }
  return undefined;
}

/** All of the grants; undefined if nothing was granted. */
function inOrder(
  store: KernelStore,
  requests: readonly GrantRequest[],
  grants: ReadonlyMap<string, Grant>,
): Grant[] | undefined {
  const all = requests.flatMap((request) => {
    const own = grants.get(request.leaseId);
    if (own !== undefined) grantedOutcome(store, request, own);
    return own ?? [];
  });
  return all.length === requests.length ? all : undefined;
}

/** The connection broke while the statement ran. @throws {LeaseError} `request.outcome_unknown`. */
async function findLost(
  store: KernelStore,
  requests: readonly GrantRequest[],
  cause: unknown,
): Promise<Grant[]> {
  const found = await findLostGrants(store, requests, cause);
  const outcomes = await Promise.all(requests.map(async ({ leaseId }) => found.get(leaseId)?.()));
  return outcomes.flatMap((one) => (one?.outcome === 'granted' ? one.grant : []));
}

/**
 * Why they would not all be granted. A lease that somebody holds says more than a line that somebody is first in.
 * `isLast`: a row that its last holder keeps locked after its time counts as held.
 * @throws {LeaseError} of leases that cannot be held as they are wanted.
 */
function refusalOfAll(
  store: KernelStore,
  found: readonly Found[],
  isLast = false,
): RefusedAll | { outcome: 'recorded' } | undefined {
  const refused: RefusedAll[] = [];
  for (const [place, one] of found.entries()) {
    const outcome = outcomeOf(one, place, isLast);
    if (outcome?.outcome === 'recorded') return outcome;
    if (outcome?.outcome === 'held' || outcome?.outcome === 'queued') {
      refused.push({ ...outcome, place });
    }
  }
  assertWithinTotals(found);
  return refused.length === 0 ? undefined : counted(store, found, refused);
}

function outcomeOf(
  { verdict, overstayed }: Found,
  place: number,
  isLast: boolean,
): Exclude<Verdict, LeaseError> | undefined {
  if (verdict instanceof LeaseError) throw atPlace(verdict, place);
  if (verdict?.outcome === 'again' && isLast) return verdict.atLast;
  if (verdict !== undefined || !isLast || overstayed === undefined) return verdict;
  return { outcome: 'held', by: overstayed, waiterCount: 0, doubtMs: 0 };
}

/**
 * More permits than a namespace has in all are never free together, and their places in line would keep everybody else
 * back meanwhile. A lease that somebody holds in the ordinary way will be a permit, too.
 * @throws {LeaseError} `request.invalid`, with the total.
 */
function assertWithinTotals(found: readonly Found[]): void {
  for (const { request, total } of found) {
    const { namespace } = request;
    const wanted = found.filter((one) => one.request.namespace === namespace);
    if (total === null || wanted.length <= total) continue;
    const message = `scopes must name at most ${String(total)} of the leases ${namespaceText(namespace)}: they have so many permits together, and ${String(wanted.length)} were asked for`;
    throw new LeaseError('request.invalid', message, { details: { field: 'scopes', total } });
  }
}

/** The error of one of the leases, with its place in the list. */
function atPlace({ code, message, details }: LeaseError, place: number): LeaseError {
  const at = `scopes[${String(place)}]`;
  if (code !== 'request.invalid') return new LeaseError(code, `${at}: ${message}`, { details });
  return new LeaseError(code, `${at}.${message}`, { details: { field: `${at}.mode` } });
}

/** The refusal that is reported, counted. */
function counted(
  store: KernelStore,
  found: readonly Found[],
  refused: readonly RefusedAll[],
): RefusedAll | undefined {
  const first = refused.find(({ outcome }) => outcome === 'held') ?? refused[0];
  const request = found[first?.place ?? 0]?.request;
  if (first !== undefined && request !== undefined) countRefusal(store, request, first);
  return first;
}
