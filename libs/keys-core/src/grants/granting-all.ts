/** Requests for several leases: granted together, refused with the lease that stands in the way, or tried again. */
import { LeaseError } from '../kernel/errors.ts';
import type { Grant, GrantOutcome, GrantRequest, LeaseRow } from '../kernel/lease.ts';
import { resourceText } from '../kernel/resource.ts';
import { databaseFailureOf, sqlStateOf } from '../postgres/database-errors.ts';
import { type KernelStore, timed } from '../postgres/kernel-store.ts';
import type { Sql } from '../postgres/sql.ts';
import { createCoalescer } from './coalesce.ts';
import {
  countRefusal,
  findLostGrants,
  type FoundRefusal,
  GRANT_TRIES_MAX,
  grantedOutcome,
  isOverstayed,
  isOwnRow,
  lookAtRefusals,
  prepareGrants,
  refusedOutcome,
  SLOW_LANE_LOCK_TIMEOUT_MS,
  watchClock,
} from './granting.ts';
import type { Granted } from './sql/grant-rows.ts';
import { grantAll, NOT_ALL } from './sql/grant-all.ts';
import {
  assertTableIsOpen,
  guardNow,
  limitLockWait,
  LOCK_NOT_AVAILABLE,
  readClock,
} from './sql/guard.ts';
import { keyText } from './sql/requests.ts';

const REQUESTS_IN_FLIGHT_MAX = 4;
/** Of 64 requests each at most. */
const GROUPS_PER_LOOK_MAX = 16;
const QUEUE_MAX = 10_000;

/** What became of a request for several leases. */
export type GrantAllOutcome =
  /** In the order of the requests. */
  | { readonly outcome: 'granted'; readonly grants: readonly Grant[] }
  | RefusedAll
  | { readonly outcome: 'recorded' };

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
   * `request.rate_limited`; `lease.is_pool`.
   */
  grantAll(requests: GrantRequests, signal?: AbortSignal): Promise<GrantAllOutcome>;
  /**
   * Why they would not all be granted now, by a plain read; undefined when they may be.
   * @throws {LeaseError} `grant.hold_off`; `lease.is_pool`.
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
  const looks = createCoalescer<GrantRequests, readonly FoundRefusal[]>({
    async run(groups) {
      const found = await lookAtRefusals(store, store.transitions, groups.flat());
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
    refusalOfAll: async (requests) =>
      refusalOfAll(store, requests, { refusals: await looks.submit(requests) }),
  };
}

async function grantTogether(
  store: KernelStore,
  requests: GrantRequests,
): Promise<GrantAllOutcome> {
  await prepareGrants(store, requests);
  for (let tries = 0; tries < GRANT_TRIES_MAX; tries += 1) {
    const grants = await tryTogether(store, requests, tries > 0);
    if (grants !== undefined) return { outcome: 'granted', grants };
    const refusals = await lookAtRefusals(store, store.transitions, requests);
    const isLast = tries + 1 === GRANT_TRIES_MAX;
    const refused = refusalOfAll(store, requests, { refusals, isLast });
    if (refused !== undefined) return refused;
  }
  throw new LeaseError('grant.contended');
}

/**
 * One try: at first it passes over locked rows, later it waits a little for each.
 * @throws {LeaseError} `store.unavailable` when it is the table that is locked.
 */
async function tryTogether(
  store: KernelStore,
  requests: GrantRequests,
  mayWait: boolean,
): Promise<Grant[] | undefined> {
  const sentAtMs = store.clock.nowMs();
  let granted: Granted;
  try {
    granted = await timed(store, 'grant', () =>
      mayWait ? waitAndGrant(store, requests) : grantAtOnce(store, requests),
    );
  } catch (error) {
    const state = sqlStateOf(error);
    if (state === LOCK_NOT_AVAILABLE) await assertTableIsOpen(store, error);
    const failure = databaseFailureOf(error);
    if (state === NOT_ALL || failure === 'contention') return undefined;
    if (failure === 'lost') return findLost(store, requests, error);
    throw error;
  }
  const { grants, seen } = granted;
  store.witness.saw(seen);
  watchClock(store, grants.values(), sentAtMs);
  return inOrder(store, requests, grants);
}

function grantAtOnce(store: KernelStore, requests: GrantRequests): Promise<Granted> {
  return grantAll(store.transitions, requests, { guard: guardNow(store), onLocked: 'skip' });
}

function waitAndGrant(store: KernelStore, requests: GrantRequests): Promise<Granted> {
  return store.slowLane.$transaction(async (tx) => {
    await limitLockWait(tx, SLOW_LANE_LOCK_TIMEOUT_MS);
    await readClock(store, tx);
    return grantAll(tx, requests, { guard: guardNow(store), onLocked: 'wait' });
  });
}

/**
 * One try in a transaction of the caller's, as `grantWithin`. @returns undefined when they were not all free: nothing is
 * granted then.
 * @throws {LeaseError} `grant.contended` when one has changed meanwhile: the transaction must be tried again.
 */
export async function grantAllWithin(
  store: KernelStore,
  tx: Sql<'guests'>,
  requests: GrantRequests,
): Promise<Grant[] | undefined> {
  await readClock(store, tx);
  const sentAtMs = store.clock.nowMs();
  const options = { guard: guardNow(store), onLocked: 'wait' } as const;
  const { grants } = await grantAll(tx, requests, options).catch((error: unknown) => {
    if (sqlStateOf(error) !== NOT_ALL) throw error;
    throw new LeaseError('grant.contended', undefined, { cause: error });
  });
  watchClock(store, grants.values(), sentAtMs);
  return inOrder(store, requests, grants);
}

/** All of the grants; undefined if nothing was granted. */
function inOrder(
  store: KernelStore,
  requests: GrantRequests,
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
  requests: GrantRequests,
  cause: unknown,
): Promise<Grant[]> {
  const found = await findLostGrants(store, requests, cause);
  const outcomes = await Promise.all(requests.map(async ({ leaseId }) => found.get(leaseId)?.()));
  return outcomes.flatMap((one) => (one?.outcome === 'granted' ? one.grant : []));
}

/**
 * Why they would not all be granted. A lease that somebody holds says more than a line that somebody is first in.
 * `isLast`: a row that its last holder keeps locked after its time counts as held.
 * @throws {LeaseError} `lease.is_pool`: the own row of a pool is never granted, so a wait for it would not end.
 */
function refusalOfAll(
  store: KernelStore,
  requests: GrantRequests,
  {
    refusals,
    isLast = false,
  }: { readonly refusals: readonly FoundRefusal[]; readonly isLast?: boolean },
): RefusedAll | { outcome: 'recorded' } | undefined {
  const refused: RefusedAll[] = [];
  for (const [place, refusal] of refusals.entries()) {
    const outcome = refusedOutcome(store, refusal) ?? (isLast ? overstayed(refusal) : undefined);
    if (outcome?.outcome === 'recorded') return outcome;
    if (outcome?.outcome === 'held') assertNoPool(outcome.by);
    if (outcome !== undefined && outcome.outcome !== 'granted') refused.push({ ...outcome, place });
  }
  return refused.length === 0 ? undefined : counted(store, requests, refused);
}

function assertNoPool(row: LeaseRow): void {
  if (!isOwnRow(row)) return;
  const { namespace, name, poolKind: kind } = row;
  const why = kind === 'permit' ? 'it is held by permits' : 'it is shared';
  throw new LeaseError(
    'lease.is_pool',
    `The lease ${resourceText(row)} is not acquired together with others: ${why}.`,
    { details: { namespace: namespace === '' ? [] : namespace.split('.'), key: name, kind } },
  );
}

/** The refusal that is reported, counted. */
function counted(
  store: KernelStore,
  requests: GrantRequests,
  refused: readonly RefusedAll[],
): RefusedAll | undefined {
  const first = refused.find(({ outcome }) => outcome === 'held') ?? refused[0];
  const request = requests[first?.place ?? 0];
  if (first !== undefined && request !== undefined) countRefusal(store, request, first);
  return first;
}

/** A lease whose last holder let it expire and keeps its row locked, by a fenced transaction. */
function overstayed({ row }: { readonly row: LeaseRow | undefined }): GrantOutcome | undefined {
  if (row === undefined || !isOverstayed(row)) return undefined;
  return { outcome: 'held', by: row, waiterCount: 0, doubtMs: 0 };
}
