/** What becomes of requests for slots of pools: granted, refused with the reason, or tried again. */
import type { Coalescer } from '../kernel/coalesce.ts';
import { LeaseError } from '../kernel/errors.ts';
import {
  type GrantOutcome,
  type GrantRequest,
  type PoolKind,
  poolKindOf,
  type PoolUse,
  type SlotMode,
} from '../kernel/lease.ts';
import { databaseFailureOf } from '../postgres/database-errors.ts';
import { type KernelStore, pause, timed } from '../postgres/kernel-store.ts';
import type { Sql } from '../postgres/sql.ts';
import { createCoalescer } from './coalesce.ts';
import {
  countRefusal,
  findLostGrants,
  GRANT_TRIES_MAX,
  type FoundRefusal,
  grantedOutcome,
  grantPlainWithin,
  isOwnRow,
  lookAtRefusals,
  type PlainOutcome,
  type Pooled,
  prepareGrants,
  refusedOutcome,
  watchClock,
} from './granting.ts';
import { guardNow, readClock } from './sql/guard.ts';
import { type AskedPool, openPools, poolsOf } from './sql/open-pools.ts';
import { grantSlots, type MetPool, readPools, type SlotRequest } from './sql/pools.ts';
import { keyText } from './sql/requests.ts';

/** How often a statement is sent while other controllers grant of the same pool at the same moment. */
const TRIES_MAX = 10;
/** About how long the pause before each further one is. */
const RETRY_MS = 10;
/** In a transaction the first try may find that the pool does not exist. */
const TRIES_WITHIN_MAX = 2;
const REQUESTS_PER_STATEMENT_MAX = 200;
/** Two, so that one which waits for the database holds up no other pool. */
const GRANTS_IN_FLIGHT_MAX = 2;
const READS_IN_FLIGHT_MAX = 2;
const QUEUE_MAX = 50_000;

/** Whether a request asks for a slot of a pool. */
export function isForSlot(request: GrantRequest): request is SlotRequest {
  return request.mode !== undefined;
}

/**
 * Asks for a slot instead, where an ordinary request has met a pool.
 * @throws {LeaseError} `request.invalid` for one that must be alone, where there are permits.
 */
export function inPool<Found extends PlainOutcome | undefined>(
  request: GrantRequest,
  found: Found,
  ask: (slot: SlotRequest) => Promise<Exclude<Found, Pooled>>,
): Exclude<Found, Pooled> | Promise<Exclude<Found, Pooled>> {
  return found?.outcome === 'pooled'
    ? ask(slotOf(request, found.kind))
    : (found as Exclude<Found, Pooled>);
}

/** The slot that an ordinary request asks for, of a pool of this kind. @throws {LeaseError} as {@link inPool}. */
export function slotOf(request: GrantRequest, kind: PoolKind): SlotRequest {
  if (kind === 'shared') return { ...request, mode: 'exclusive' };
  if (request.alone === true) throw otherKind('exclusive');
  return { ...request, mode: 'permit' };
}

export interface Pools {
  /**
   * Grants a slot, or reports who holds the pool.
   * @throws {LeaseError} as `LeaseStore.grant`; `lease.permits_not_declared`; `request.invalid` for a mode that the
   * pool does not have.
   */
  grant(request: SlotRequest, signal?: AbortSignal): Promise<GrantOutcome>;
  /** Why a slot would not be granted now; undefined when it may be. @throws as {@link grant}. */
  refusal(request: SlotRequest, signal?: AbortSignal): Promise<GrantOutcome | undefined>;
}

export function createPools(store: KernelStore): Pools {
  const common = {
    batchSizeMax: REQUESTS_PER_STATEMENT_MAX,
    queueMax: QUEUE_MAX,
    isGathering: true,
  };
  const ofGrants = {
    ...common,
    keysOf: ({ leaseId, principal, idempotencyKey }: SlotRequest) =>
      idempotencyKey === undefined ? [leaseId] : [leaseId, keyText({ principal, idempotencyKey })],
    inFlightMax: GRANTS_IN_FLIGHT_MAX,
  };
  // Those that must be tried again, by themselves, and each try by itself: they withhold no answers of others.
  const repeats: Coalescer<Repeat, GrantOutcome> = createCoalescer({
    ...ofGrants,
    keysOf: ({ request }) => ofGrants.keysOf(request),
    run: (asked) => grantAgain(store, asked, (next) => repeats.submit(next)),
  });
  const grants = createCoalescer<SlotRequest, GrantOutcome>({
    ...ofGrants,
    run: (requests) =>
      grantBatch(store, requests, (request) => repeats.submit({ request, tries: 1 })),
    onBatch: (size) => store.observer.batch('grant', size),
  });
  const reads = createCoalescer<SlotRequest, Verdict>({
    ...common,
    run: async (requests) => {
      const { verdicts } = await judge(store, store.transitions, requests);
      return requests.map(({ leaseId }) => verdicts.get(leaseId) ?? AGAIN);
    },
    inFlightMax: READS_IN_FLIGHT_MAX,
  });
  return {
    grant: (request, signal) => grants.submit(request, signal),
    async refusal(request, signal) {
      const verdict = await reads.submit(request, signal);
      if (verdict instanceof LeaseError) throw verdict;
      return verdict.outcome === 'again' ? undefined : countRefusal(store, request, verdict);
    },
  };
}

/**
 * One grant in a transaction of the caller's, of a slot or of a lease that one holds at a time.
 * @see grantPlainWithin
 */
export async function grantWithin(
  store: KernelStore,
  tx: Sql<'guests'>,
  request: GrantRequest,
  lastTry: LastTry = { overstayed: [] },
): Promise<GrantOutcome | undefined> {
  lastTry.overstayed = [];
  if (isForSlot(request)) return grantSlotWithin(store, tx, request, lastTry);
  const outcome = await grantPlainWithin(store, tx, request);
  return inPool(request, outcome, (slot) => grantSlotWithin(store, tx, slot, lastTry));
}

/** The own row of the pool stays locked until the caller's transaction ends: others wait, or try again. */
async function grantSlotWithin(
  store: KernelStore,
  tx: Sql<'guests'>,
  request: SlotRequest,
  lastTry: LastTry,
): Promise<GrantOutcome | undefined> {
  await readClock(store, tx);
  const answers = new Map<string, Answer>();
  for (let tries = 0; tries < TRIES_WITHIN_MAX && answers.size === 0; tries += 1) {
    const how = { answers, atLast: new Map<string, Answer>(), onLocked: 'wait', lastTry } as const;
    await grantOnce(store, tx, [request], how);
  }
  return answers.get(request.leaseId)?.();
}

/** Of the last try: the grants that have run out and whose holders keep their slots locked, by lease id. */
export interface LastTry {
  overstayed: readonly string[];
}

/** Why a request was not granted; `again`: nothing is in its way now. */
export type Verdict = GrantOutcome | Again | LeaseError;

interface Again {
  readonly outcome: 'again';
  /** Why it is refused if the last try does not grant it either; undefined for no reason that is known. */
  readonly atLast?: Held | undefined;
}

type Held = Extract<GrantOutcome, { outcome: 'held' }>;

const AGAIN: Again = { outcome: 'again' };

type Answer = () => GrantOutcome | Promise<GrantOutcome>;

/** Tries once, and once more for pools that it has opened; what is open then is handed on. */
async function grantBatch(
  store: KernelStore,
  requests: readonly SlotRequest[],
  repeat: (request: SlotRequest) => Promise<GrantOutcome>,
): Promise<(GrantOutcome | Promise<GrantOutcome>)[]> {
  await prepareGrants(store, requests);
  const answers = new Map<string, Answer>();
  const isOpen = ({ leaseId }: SlotRequest): boolean => !answers.has(leaseId);
  const once = (asked: readonly SlotRequest[]): Promise<boolean> =>
    grantOnce(store, store.transitions, asked, { answers, atLast: new Map(), onLocked: 'skip' });
  try {
    const hasOpened = await once(requests);
    if (hasOpened) await once(requests.filter(isOpen));
  } catch (error) {
    const open = requests.filter(isOpen);
    await settleFailed(store, { requests: open, answers, isLast: false }, error);
  }
  return requests.map((request) => answers.get(request.leaseId)?.() ?? repeat(request));
}

/** A request that is tried again, and which of these tries it is. */
interface Repeat {
  readonly request: SlotRequest;
  readonly tries: number;
}

/** Tries once, and hands on what is open then after a pause, or answers it when this was the last try. */
async function grantAgain(
  store: KernelStore,
  asked: readonly Repeat[],
  repeat: (next: Repeat) => Promise<GrantOutcome>,
): Promise<(GrantOutcome | Promise<GrantOutcome>)[]> {
  const requests = asked.map(({ request }) => request);
  const answers = new Map<string, Answer>();
  const atLast = new Map<string, Answer>();
  try {
    await grantOnce(store, store.transitions, requests, { answers, atLast, onLocked: 'skip' });
  } catch (error) {
    const open = requests.filter(({ leaseId }) => !answers.has(leaseId));
    // With one that fails then, all fail: the coalescer halves them until it is alone, and the others are tried again.
    const isLast = asked.some(({ tries }) => tries >= GRANT_TRIES_MAX);
    await settleFailed(store, { requests: open, answers, isLast }, error);
  }
  // One pause for all: they go on together, as far as they may.
  let paused: Promise<void> | undefined;
  return asked.map(({ request, tries }) => {
    const answer = answers.get(request.leaseId);
    if (answer !== undefined) return answer();
    if (tries < TRIES_MAX) {
      paused ??= pause(store, RETRY_MS * (0.5 + store.ids.random()));
      return paused.then(() => repeat({ request, tries: tries + 1 }));
    }
    return atLast.get(request.leaseId)?.() ?? Promise.reject(new LeaseError('grant.contended'));
  });
}

/**
 * Finds what becomes of requests whose statement has failed. Those that are without an answer then are sent again.
 * @throws {LeaseError} if nothing of the batch is decided: it may fail as a whole.
 */
async function settleFailed(
  store: KernelStore,
  failed: {
    readonly requests: readonly SlotRequest[];
    readonly answers: Map<string, Answer>;
    readonly isLast: boolean;
  },
  error: unknown,
): Promise<void> {
  const { requests, answers, isLast } = failed;
  // A lock, perhaps of one pool alone.
  if (!isLast && databaseFailureOf(error) === 'contention') return;
  let failure = error instanceof Error ? error : new Error(String(error));
  if (error instanceof LeaseError && error.code === 'request.outcome_unknown') {
    try {
      const found = await findLostGrants(store, requests, error.cause);
      for (const [leaseId, answer] of found) answers.set(leaseId, answer);
      return;
    } catch (unknown) {
      failure = unknown instanceof Error ? unknown : failure;
    }
  }
  if (answers.size === 0) throw failure;
  for (const { leaseId } of requests) {
    if (!answers.has(leaseId)) answers.set(leaseId, () => Promise.reject(failure));
  }
}

interface Tries {
  readonly answers: Map<string, Answer>;
  /** What those without an answer are told if there is no further try: see {@link Again}. */
  readonly atLast: Map<string, Answer>;
  /** What is done about pools of which another transaction grants. */
  readonly onLocked: 'skip' | 'wait';
  readonly lastTry?: LastTry | undefined;
}

/**
 * Sends the statement once, and finds what became of each request; of some it may not be known yet. @returns whether
 * pools were opened for them.
 */
async function grantOnce(
  store: KernelStore,
  sql: Sql<'guests' | 'transitions'>,
  requests: readonly SlotRequest[],
  { answers, atLast, onLocked, lastTry }: Tries,
): Promise<boolean> {
  const sentAtMs = store.clock.nowMs();
  const { grants, seen, overstayed } = await timed(store, 'grant', () =>
    grantSlots(sql, requests, { guard: guardNow(store), onLocked }),
  ).catch((error: unknown) => {
    if (databaseFailureOf(error) !== 'lost') throw error;
    throw new LeaseError('request.outcome_unknown', undefined, { cause: error });
  });
  if (lastTry !== undefined) lastTry.overstayed = overstayed;
  // In a transaction of the caller's nothing is written for certain before that is committed.
  if (sql === store.transitions) store.witness.saw(seen);
  watchClock(store, grants.values(), sentAtMs);
  for (const request of requests) {
    const own = grants.get(request.leaseId);
    if (own !== undefined) answers.set(request.leaseId, () => grantedOutcome(store, request, own));
  }
  const refused = requests.filter(({ leaseId }) => !grants.has(leaseId));
  if (refused.length === 0) return false;
  const { verdicts, missing } = await judge(store, sql, refused, overstayed);
  for (const request of refused) {
    const verdict = verdicts.get(request.leaseId) ?? AGAIN;
    if (verdict instanceof LeaseError) {
      answers.set(request.leaseId, () => Promise.reject(verdict));
    } else if (verdict.outcome !== 'again') {
      answers.set(request.leaseId, () => countRefusal(store, request, verdict));
    } else if (verdict.atLast !== undefined) {
      const held = verdict.atLast;
      atLast.set(request.leaseId, () => countRefusal(store, request, held));
    }
  }
  if (missing.length === 0) return false;
  await openPools(sql, missing, { guard: guardNow(store), onLocked });
  return true;
}

export interface Judged {
  /** Why each was refused, by lease id. */
  readonly verdicts: ReadonlyMap<string, Verdict>;
  /** The pools that do not exist yet, and whose scope nobody holds. */
  readonly missing: readonly AskedPool[];
  /** How many may hold all keys of the pool together, by lease id; null for no limit. */
  readonly totals: ReadonlyMap<string, number | null>;
}

/**
 * Finds why each of these requests was not granted. Locks nothing.
 * @param overstayed of the try before: see {@link LastTry}.
 */
export async function judge(
  store: KernelStore,
  sql: Sql<'guests' | 'transitions'>,
  requests: readonly SlotRequest[],
  overstayed: LastTry['overstayed'] = [],
): Promise<Judged> {
  const refusals = await lookAtRefusals(store, sql, requests);
  const pools = await readPools(sql, requests, guardNow(store), overstayed);
  const missing: AskedPool[] = [];
  const verdicts = new Map<string, Verdict>();
  const totals = new Map<string, number | null>();
  for (const [index, request] of requests.entries()) {
    const pool = pools.get(request.leaseId);
    const refusal = refusals[index];
    if (pool === undefined || refusal === undefined) continue;
    totals.set(request.leaseId, pool.total);
    const verdict = verdictOf(store, request, { pool, refusal });
    if (verdict !== undefined) verdicts.set(request.leaseId, verdict);
    else missing.push(...poolsOf(request, pool));
  }
  return { verdicts, missing, totals };
}

interface Met {
  readonly pool: MetPool;
  readonly refusal: FoundRefusal;
}

/** @returns undefined when the pool does not exist yet, and nobody holds its scope. */
function verdictOf(store: KernelStore, request: SlotRequest, met: Met): Verdict | undefined {
  const { pool, refusal } = met;
  const { row, isRecorded } = refusal;
  if (isRecorded) return { outcome: 'recorded' };
  const misfit = misfitOf(request, pool, row);
  if (misfit !== undefined) return misfit;
  if (row === undefined || !isOwnRow(row)) {
    // Held in the ordinary way: the pool begins when that is over.
    const refused = refusedOutcome(store, refusal);
    return refused?.outcome === 'pooled' ? undefined : refused;
  }
  if (!pool.isOpen) return undefined;
  if (!pool.isEntitled) return inTheWay(store, request, met);
  const { byAtLast: by } = pool;
  if (by === undefined || !isFull(request, withOverstayed(pool))) return AGAIN;
  return { ...AGAIN, atLast: heldBy(request, met, { by, doubtMs: 0 }) };
}

/** The error of a request for a kind of pool that the lease is not. */
function misfitOf(
  { mode }: SlotRequest,
  { perKey }: MetPool,
  row: FoundRefusal['row'],
): LeaseError | undefined {
  const kind = poolKindOf(mode);
  if (kind === 'permit' && perKey === null) return new LeaseError('lease.permits_not_declared');
  const isOrdinary = row === undefined || !isOwnRow(row);
  const other = isOrdinary ? kind === 'shared' && perKey !== null : row.poolKind !== kind;
  return other ? otherKind(mode) : undefined;
}

/** The holders or those in line that keep a request from its turn. */
function inTheWay(store: KernelStore, request: SlotRequest, met: Met): Verdict {
  const { pool, refusal } = met;
  const { by } = pool;
  const { head, waiterCount } = refusal;
  const isOwn = by?.leaseId === request.leaseId;
  if (by !== undefined && (isOwn || head === undefined || isFull(request, pool))) {
    const doubtMs = by.asOf < by.expiresAt ? 0 : store.clockWatch.doubtMs(by);
    return heldBy(request, met, { by, doubtMs });
  }
  if (head !== undefined) return { outcome: 'queued', head, waiterCount };
  // Nobody holds any of the pool, nor waits for this key.
  return pool.head === undefined
    ? AGAIN
    : { outcome: 'queued', head: pool.head, waiterCount: pool.waiterCount };
}

function heldBy(
  { mode }: SlotRequest,
  { pool, refusal: { waiterCount } }: Met,
  who: Pick<Held, 'by' | 'doubtMs'>,
): Held {
  return { outcome: 'held', ...who, waiterCount, pool: useOf(poolKindOf(mode), pool) };
}

type Limits = Pick<MetPool, 'perKey' | 'total' | 'usedOfKey' | 'usedOfAll' | 'exclusiveCount'>;

/** The pool if those that have overstayed count as holders. */
function withOverstayed(pool: MetPool): Limits {
  return {
    ...pool,
    usedOfKey: pool.usedOfKey + pool.overstayedOfKey,
    usedOfAll: pool.usedOfAll + pool.overstayedOfAll,
    exclusiveCount: pool.exclusiveCount + pool.overstayedAlone,
  };
}

/** Whether the holders are in the way of a request, and not only those who wait. */
function isFull({ mode }: SlotRequest, pool: Limits): boolean {
  switch (mode) {
    case 'permit':
      return (
        pool.usedOfKey >= (pool.perKey ?? 0) ||
        (pool.total !== null && pool.usedOfAll >= pool.total)
      );
    case 'shared':
      return pool.exclusiveCount > 0;
    case 'exclusive':
      return pool.usedOfKey > 0;
  }
}

function useOf(kind: PoolUse['kind'], pool: MetPool): PoolUse {
  const { perKey, total, usedOfKey, usedOfAll, holders } = pool;
  const isShared = kind === 'shared';
  return {
    kind,
    used: usedOfKey,
    permits: isShared ? null : perKey,
    total: isShared || total === null ? null : { used: usedOfAll, permits: total },
    holders,
  };
}

function otherKind(mode: SlotMode): LeaseError {
  const message =
    mode === 'permit'
      ? 'mode must be shared or exclusive: the lease has been held by several who share it'
      : 'mode must be permit: the lease has a number of permits';
  return new LeaseError('request.invalid', message, { details: { field: 'mode' } });
}
