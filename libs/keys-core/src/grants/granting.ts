/** What becomes of requests for a grant: granted, refused with the reason, or tried again alone. */
import { LeaseError } from '../kernel/errors.ts';
import { type FreezeInForce, frozenError } from '../kernel/freeze.ts';
import {
  type Grant,
  type GrantOutcome,
  type GrantRequest,
  type LeaseRow,
  type PoolKind,
} from '../kernel/lease.ts';
import { RequestsInProgress } from '../kernel/requests.ts';
import { resourceKey } from '../kernel/resource.ts';
import { databaseFailureOf, sqlStateOf } from '../postgres/database-errors.ts';
import { type KernelStore, pause, timed } from '../postgres/kernel-store.ts';
import { isoOf, readLeasesWithIds, type Sql } from '../postgres/sql.ts';
import { createCoalescer } from './coalesce.ts';
import { windowsFrom } from './freeze-windows.ts';
import { readEnvironmentLines } from './sql/environment-line.ts';
import { advanceFreeze, readStoppingFreezes, type StoppingFreeze } from './sql/freezes.ts';
import { firstLadder, type Granted } from './sql/grant-rows.ts';
import { grant, grantFree, isPlain, lockTakable, readRefusals, type Refusal } from './sql/grant.ts';
import {
  assertTableIsOpen,
  guardNow,
  holdOffError,
  limitLockWait,
  LOCK_NOT_AVAILABLE,
  readClock,
} from './sql/guard.ts';

/** How often a grant is tried when its row was locked, or was free by the time it was read. */
export const GRANT_TRIES_MAX = 3;
export const SLOW_LANE_LOCK_TIMEOUT_MS = 100;
const READS_PER_STATEMENT_MAX = 200;
const READ_QUEUE_MAX = 50_000;

/** Several may hold the lease: a slot is asked for instead, see `pooling.ts`. */
export interface Pooled {
  readonly outcome: 'pooled';
  readonly kind: PoolKind;
}

/** What becomes of a request for a lease that one holds at a time. */
export type PlainOutcome = GrantOutcome | Pooled;

type GrantAnswer = PlainOutcome | Promise<PlainOutcome>;

/** What became of the requests of a statement, by lease id; a request that nothing refuses is not in it. */
type Decided = Map<string, () => GrantAnswer>;

/**
 * Grants a batch. The short statement grants what is simply free, and one more read finds why the
 * others were refused; what nothing refuses goes to the full statement, and from there is asked for alone.
 */
export async function grantBatch(
  store: KernelStore,
  requests: readonly GrantRequest[],
  askAlone: AskAlone,
): Promise<GrantAnswer[]> {
  await prepareGrants(store, requests);
  await advanceOverridden(store, requests);
  const decided = await decide(store, requests.filter(isPlain), askAlone, (plain) =>
    grantFree(store.transitions, plain, store.witness.mark),
  );
  const open = requests.filter(({ leaseId }) => !decided.has(leaseId));
  const others = await decide(store, open, askAlone, (rest) =>
    grant(store.transitions, rest, { guard: guardNow(store), onLocked: 'skip' }),
  ).catch((error: unknown): Decided => {
    // Only a batch of which nothing is decided may be sent again: the others have been granted.
    if (decided.size === 0) throw error;
    return new Map();
  });
  return requests.map((request) => {
    const answer = decided.get(request.leaseId) ?? others.get(request.leaseId);
    return answer === undefined ? askAlone(request) : answer();
  });
}

/**
 * Gives freezes whose window is over their next one, before they are overridden. No refusal does that: they stop
 * nobody who may override them, and one that is over is not overridden.
 */
async function advanceOverridden(
  store: KernelStore,
  requests: readonly GrantRequest[],
): Promise<void> {
  const overriding = requests.filter(({ override }) => override !== undefined);
  if (overriding.length === 0) return;
  const asked = overriding.map((request) => ({ ...request, override: undefined }));
  await freezesInForce(store, store.transitions, asked);
}

/** Sends a statement that grants, and finds what became of each of its requests. */
async function decide(
  store: KernelStore,
  requests: readonly GrantRequest[],
  askAlone: AskAlone,
  statement: (requests: readonly GrantRequest[]) => Promise<Granted>,
): Promise<Decided> {
  const decided: Decided = new Map();
  if (requests.length === 0) return decided;
  const sentAtMs = store.clock.nowMs();
  let granted: Granted;
  try {
    granted = await timed(store, 'grant', () => statement(requests));
  } catch (error) {
    const only = await aloneLockedOut(store, requests, error);
    if (only !== undefined) return decided.set(only.leaseId, () => askAlone(only));
    if (databaseFailureOf(error) !== 'lost') throw error;
    return findLostGrants(store, requests, error);
  }
  const { grants, seen } = granted;
  store.witness.saw(seen);
  watchClock(store, grants.values(), sentAtMs);
  const refused: GrantRequest[] = [];
  for (const request of requests) {
    const own = grants.get(request.leaseId);
    if (own === undefined) refused.push(request);
    else decided.set(request.leaseId, () => grantedOutcome(store, request, own));
  }
  const refusals = await readRefusalsOf(store, refused);
  for (const request of refused) {
    const refusal = refusals.get(request.leaseId);
    if (refusal instanceof Error) {
      decided.set(request.leaseId, () => Promise.reject(refusal));
      continue;
    }
    const outcome = refusedOutcome(store, refusal);
    if (outcome === undefined) continue;
    decided.set(request.leaseId, () => countRefusal(store, request, outcome));
  }
  return decided;
}

/**
 * The only request of a statement that has waited too long for a lock: an open transaction is inserting
 * its row, and the slow lane can wait for that.
 * @throws {LeaseError} `store.unavailable` when it is the table that is locked.
 */
async function aloneLockedOut(
  store: KernelStore,
  [first, ...others]: readonly GrantRequest[],
  error: unknown,
): Promise<GrantRequest | undefined> {
  if (sqlStateOf(error) !== LOCK_NOT_AVAILABLE) return undefined;
  await assertTableIsOpen(store, error);
  return others.length === 0 ? first : undefined;
}

/** Why each was refused. An error here fails these alone: their neighbours have been granted. */
async function readRefusalsOf(
  store: KernelStore,
  refused: readonly GrantRequest[],
): Promise<Map<string, FoundRefusal | Error | undefined>> {
  if (refused.length === 0) return new Map();
  try {
    const found = await lookAtRefusals(store, store.transitions, refused);
    return new Map(
      refused.map(({ leaseId }, index) => [leaseId, stopOf(found[index]) ?? found[index]]),
    );
  } catch (error) {
    const failure = error instanceof Error ? error : new Error(String(error));
    return new Map(refused.map((request) => [request.leaseId, failure]));
  }
}

/** Asks for one grant, in a transaction that waits a little for its row. */
export type AskAlone = (request: GrantRequest) => Promise<PlainOutcome>;

/**
 * The slow lane: a resource that seemed free and was not granted is asked for alone, on connections
 * of its own. Of many callers one asks, and the others share its result: the lane has few connections.
 */
export function createSlowLane(store: KernelStore): AskAlone {
  const asked = new RequestsInProgress<PlainOutcome>();
  return async (request) => {
    const key = resourceKey(request);
    if (asked.has(key)) {
      const met = await asked.newest(key);
      if (met?.outcome === 'held') return countRefusal(store, request, met);
      const [refusal] = await lookAtRefusals(store, store.transitions, [request]);
      const refused = refusedOutcome(store, refusal);
      if (refused !== undefined) return countRefusal(store, request, refused);
    }
    return asked.run(key, () => grantAlone(store, request));
  };
}

/**
 * Why a request would be refused now, or undefined when it may be granted. Many reads share a
 * statement, and block nobody.
 */
export function createRefusalReader(
  store: KernelStore,
): (request: GrantRequest, signal?: AbortSignal) => Promise<PlainOutcome | undefined> {
  const reads = createCoalescer<GrantRequest, FoundRefusal>({
    run: (requests) => lookAtRefusals(store, store.transitions, requests),
    keysOf: () => [],
    batchSizeMax: READS_PER_STATEMENT_MAX,
    inFlightMax: 1,
    queueMax: READ_QUEUE_MAX,
    isGathering: true,
  });
  return async (request, signal) => {
    const outcome = refusedOutcome(store, await reads.submit(request, signal));
    return outcome === undefined ? undefined : countRefusal(store, request, outcome);
  };
}

/**
 * One try in a transaction of the caller's, which has called {@link prepareGrants} and waits for a
 * locked row as long as the transaction lets it. @returns undefined when the row was locked or has changed meanwhile: try again.
 * @throws {LeaseError} `grant.hold_off`.
 */
export async function grantPlainWithin(
  store: KernelStore,
  tx: Sql<'guests'>,
  request: GrantRequest,
): Promise<PlainOutcome | undefined> {
  await readClock(store, tx);
  const sentAtMs = store.clock.nowMs();
  const { grants } = await grant(tx, [request], { guard: guardNow(store), onLocked: 'wait' });
  const own = grants.get(request.leaseId);
  if (own !== undefined) {
    watchClock(store, [own], sentAtMs);
    return grantedOutcome(store, request, own);
  }
  const [refusal] = await lookAtRefusals(store, tx, [request]);
  const outcome = refusedOutcome(store, refusal);
  return outcome === undefined ? undefined : countRefusal(store, request, outcome);
}

/** Before anything is granted: waits for the witness, and notes a TTL that is longer than any before. */
export async function prepareGrants(
  store: KernelStore,
  requests: readonly { readonly ladder: { readonly ttlMs: number } }[],
): Promise<void> {
  await store.witness.ready();
  const longestMs = Math.max(...requests.map((request) => request.ladder.ttlMs));
  if (longestMs > store.longestTtl.ms) await store.longestTtl.note(longestMs);
}

async function grantAlone(store: KernelStore, request: GrantRequest): Promise<PlainOutcome> {
  let by: LeaseRow | undefined;
  for (let tries = 0; tries < GRANT_TRIES_MAX; tries += 1) {
    const outcome = await grantWaiting(store, request);
    if (outcome !== undefined) return outcome;
    const [refusal] = await lookAtRefusals(store, store.transitions, [request]);
    const refused = refusedOutcome(store, refusal);
    if (refused !== undefined) return countRefusal(store, request, refused);
    by = refusal?.row;
  }
  // Its last holder let it expire and still keeps the row locked, by a fenced transaction.
  if (by !== undefined && isOverstayed(by)) {
    return countRefusal(store, request, { outcome: 'held', by, waiterCount: 0, doubtMs: 0 });
  }
  throw new LeaseError('grant.contended');
}

async function grantWaiting(store: KernelStore, request: GrantRequest) {
  try {
    const { grants, seen } = await store.slowLane.$transaction(async (tx) => {
      await limitLockWait(tx, SLOW_LANE_LOCK_TIMEOUT_MS);
      await readClock(store, tx);
      if (request.face === 'environment' && request.isQueued !== true) {
        await lockTakable(tx, request, guardNow(store));
      }
      return grant(tx, [request], { guard: guardNow(store), onLocked: 'wait' });
    });
    store.witness.saw(seen);
    const own = grants.get(request.leaseId);
    return own === undefined ? undefined : grantedOutcome(store, request, own);
  } catch (error) {
    if (databaseFailureOf(error) === 'contention') return undefined;
    throw error;
  }
}

/**
 * The connection broke while the statement ran. It may still be waiting for a lock and grant later,
 * so this waits until the server has surely cancelled it, and then reads what became of each grant.
 */
export async function findLostGrants(
  store: KernelStore,
  requests: readonly GrantRequest[],
  cause: unknown,
): Promise<Map<string, () => GrantOutcome | Promise<GrantOutcome>>> {
  await pause(store, store.statementTimeoutMs + 500);
  const unknown = (): LeaseError => new LeaseError('request.outcome_unknown', undefined, { cause });
  const leaseIds = requests.map(({ leaseId }) => leaseId);
  const rows = await readLeasesWithIds(store.general, leaseIds).catch(() => {
    throw unknown();
  });
  return new Map(
    requests.map((request) => {
      const { face, namespace, name, leaseId } = request;
      const row = rows.get(leaseId);
      const answer = (): GrantOutcome | Promise<GrantOutcome> =>
        // One that has ended since is not given any more: what its caller repeats finds out why.
        row === undefined || row.endReason !== null || row.expiresAt <= row.asOf
          ? Promise.reject(unknown())
          : grantedOutcome(store, request, {
              ...row,
              // A slot has a name of its own.
              ...{ face, namespace, name },
              ladder: firstLadder(request),
              remainingMs: row.expiresAt - row.asOf,
              freeMs: null,
              previous: null,
            });
      return [leaseId, answer];
    }),
  );
}

/**
 * Reads why requests were refused, and observes the database's clock. Freezes that recur get their next window.
 * @throws {LeaseError} `grant.hold_off`.
 */
export async function lookAtRefusals(
  store: KernelStore,
  sql: Sql<'general' | 'guests' | 'transitions'>,
  requests: readonly GrantRequest[],
): Promise<readonly FoundRefusal[]> {
  // Within a caller's transaction it was ready before: the pool may have no second connection for it.
  if (sql === store.transitions || sql === store.general) await store.witness.ready();
  const freezes = await freezesInForce(store, sql, requests);
  const sentAtMs = store.clock.nowMs();
  const { refusals, holdOff } = await readRefusals(sql, requests, store.witness.mark);
  watchClock(
    store,
    refusals.map((refusal) => refusal.row),
    sentAtMs,
  );
  if (holdOff !== undefined) throw holdOffError(store, holdOff);
  const found = await withEnvironmentLines(sql, requests, refusals);
  if (freezes.size === 0) return found;
  return found.map((refusal, index) => {
    const freeze = freezes.get(requests[index]?.leaseId ?? '');
    return freeze === undefined ? refusal : { ...refusal, freeze };
  });
}

/** Adds who is before each request for an environment in its line. */
async function withEnvironmentLines(
  sql: Sql<'general' | 'guests' | 'transitions'>,
  requests: readonly GrantRequest[],
  refusals: readonly Refusal[],
): Promise<readonly Refusal[]> {
  const places = requests.flatMap(({ face }, index) => (face === 'environment' ? [index] : []));
  if (places.length === 0) return refusals;
  const asked = requests.filter(({ face }) => face === 'environment');
  const found = [...refusals];
  for (const { place, waiterCount, ...head } of await readEnvironmentLines(sql, asked)) {
    const index = places[place - 1] ?? -1;
    const refusal = found[index];
    if (refusal !== undefined) found[index] = { ...refusal, head, waiterCount };
  }
  return found;
}

/** Why a request was refused, with the freeze that it falls into, if any. */
export interface FoundRefusal extends Refusal {
  readonly freeze?: FreezeInForce;
}

/**
 * The error of a request that a freeze stops; it is told even if somebody holds the environment. What became of a
 * request that was sent before is found in its record.
 */
function stopOf(refusal: FoundRefusal | undefined): LeaseError | undefined {
  if (refusal?.freeze === undefined || refusal.isRecorded) return undefined;
  return frozenError(refusal.freeze);
}

/**
 * Why a request was refused, or undefined when only a lock, a change or the delay of its statement
 * stood in its way.
 * @throws {LeaseError} `environment.frozen`.
 */
export function refusedOutcome(
  { clockWatch }: Pick<KernelStore, 'clockWatch'>,
  refusal: FoundRefusal | undefined,
): PlainOutcome | undefined {
  const failure = stopOf(refusal);
  if (failure !== undefined) throw failure;
  if (refusal === undefined) return undefined;
  const { row, head, waiterCount, isRecorded, hasPermits } = refusal;
  if (isRecorded) return { outcome: 'recorded' };
  if (row?.poolKind != null) return { outcome: 'pooled', kind: row.poolKind };
  if (row !== undefined) {
    const doubtMs = clockWatch.doubtMs(row);
    if (doubtMs > 0 || !isTakable(row)) return { outcome: 'held', by: row, waiterCount, doubtMs };
  }
  if (hasPermits) return { outcome: 'pooled', kind: 'permit' };
  if (head !== undefined) return { outcome: 'queued', head, waiterCount };
  return undefined;
}

/** Whether a locked row may be locked by its last holder, which still works after its grant expired. */
export function isOverstayed(row: LeaseRow): boolean {
  return row.endReason === null || row.endReason === 'expired';
}

/** Whether a row, as it was read, could be granted: then the grant met a lock or a change. */
function isTakable(row: LeaseRow): boolean {
  const isOver = row.endReason !== null || row.asOf >= row.expiresAt;
  return isOver && (row.stopsBy === null || row.asOf >= row.stopsBy);
}

export function grantedOutcome(
  store: KernelStore,
  request: GrantRequest,
  own: Grant,
): GrantOutcome {
  const status = own.previous?.end === 'expired' ? 'expired' : 'free';
  store.observer.grant(own.face, 'granted', status, actionOf(request));
  return request.mode === undefined
    ? { outcome: 'granted', grant: own }
    : { outcome: 'granted', grant: own, isSlot: true };
}

/**
 * Counts a handover: a grant to a caller that was already waiting when the previous grant ended. A
 * caller that joined the line later found the resource free.
 */
export function observeHandover(
  store: Pick<KernelStore, 'observer'>,
  { face, freeMs }: Grant,
  waitedMs: number,
): void {
  if (freeMs === null || freeMs > waitedMs) return;
  store.observer.handedOver(face, Math.max(0, freeMs));
}

/** Whether a row is the own row of a pool: nobody holds it, and the pool's slots say who holds the scope. */
export function isOwnRow({ poolKind }: Pick<LeaseRow, 'poolKind'>): boolean {
  return poolKind !== undefined && poolKind !== null;
}

/** Counts a refusal. Another try from a place in line is no new refusal. */
export function countRefusal<Outcome extends PlainOutcome>(
  store: KernelStore,
  request: GrantRequest,
  outcome: Outcome,
): Outcome {
  if (request.isQueued === true) return outcome;
  if (outcome.outcome === 'queued') {
    store.observer.grant(request.face, 'denied', 'free', actionOf(request));
  }
  if (outcome.outcome === 'held') {
    const { by } = outcome;
    const status = by.asOf < by.expiresAt ? 'active' : 'expired';
    store.observer.grant(by.face, 'denied', status, actionOf(request));
  }
  return outcome;
}

/** The action that an environment is requested for. */
function actionOf(request: GrantRequest): string | undefined {
  return request.face === 'environment' ? request.tag : undefined;
}

/** Every answer shows the database's clock, refusals too. */
export function watchClock(
  store: KernelStore,
  rows: Iterable<{ readonly asOf: number } | undefined>,
  sentAtMs: number,
): void {
  for (const row of rows) {
    if (row === undefined) continue;
    store.clockWatch.observe(row.asOf, sentAtMs, store.clock.nowMs());
    return;
  }
}

/**
 * The freezes that stop these requests, by lease id; of several the one that lasts the longest. One that recurs and
 * whose window is over is given its next window first, and is not among them: the next try decides. While nobody
 * asks for its environments it may stay as it is: it then stops the first caller only until this is done.
 */
async function freezesInForce(
  { general }: Pick<KernelStore, 'general'>,
  sql: Sql<'general' | 'guests' | 'transitions'>,
  requests: readonly GrantRequest[],
): Promise<Map<string, FreezeInForce>> {
  const found = new Map<string, FreezeInForce>();
  const asked = requests.filter(({ face }) => face === 'environment');
  if (asked.length === 0) return found;
  const advanced = new Set<string>();
  for (const freeze of await readStoppingFreezes(sql, asked)) {
    const leaseId = asked[freeze.place - 1]?.leaseId;
    if (freeze.windowUntil > freeze.asOf) {
      if (leaseId !== undefined && !found.has(leaseId)) found.set(leaseId, inForce(freeze));
    } else if (!advanced.has(freeze.freezeId)) {
      advanced.add(freeze.freezeId);
      await advanceFreeze(general, freeze.freezeId, freeze.windowUntil, nextWindow(freeze));
    }
  }
  return found;
}

function nextWindow({ schedule, durationMs, zone, asOf }: StoppingFreeze) {
  if (schedule === null || durationMs === null || zone === null) return undefined;
  return windowsFrom({ schedule, durationMs, zone }, asOf, 1)[0];
}

function inForce(freeze: StoppingFreeze): FreezeInForce {
  const { freezeId, namespace, name, reason, windowUntil, passRoles, passPeople, asOf } = freeze;
  return {
    freezeId,
    namespace,
    name,
    reason,
    until: isoOf(windowUntil),
    remainingMs: Math.ceil(windowUntil - asOf),
    allow: { roles: passRoles, people: passPeople },
  };
}
