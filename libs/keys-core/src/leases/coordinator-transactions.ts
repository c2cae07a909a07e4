/** The transactions of the coordinator in which hooks run; see `acquireOrRenewOnce` for its own. */
import {
  boundTransaction,
  closeBefore,
  ensureLeaseRow,
  type GrantRequests,
  grantWithin,
  inFence,
  type LastTry,
  notHeld,
  observeHeld,
  prepareGrants,
  readEndedGrants,
  refusalAtLast,
  releaseAlone,
  type ReleaseRequest,
  renew,
  wakeWaiters,
} from '../grants/index.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { Ladder } from '../kernel/ladder.ts';
import type {
  Grant,
  GrantOutcome,
  GrantRef,
  GrantRequest,
  ReleaseOutcome,
  RenewOutcome,
} from '../kernel/lease.ts';
import { databaseFailureOf } from '../postgres/database-errors.ts';
import {
  callHook,
  type CoordinatorStore,
  GUEST_MS_MAX,
  type GuestTransaction,
  guestTransaction,
  retryContention,
  withinBound,
} from '../postgres/guest-transaction.ts';
import type { KernelStore } from '../postgres/kernel-store.ts';
import type { Sql } from '../postgres/sql.ts';
import { leaseDeadlines } from './acquire-answers.ts';

/** What a hook of a grant or a renewal is given: see LeaseUseCase. */
export type GrantHook<Tx> = (tx: Tx, at: number, grant: GrantRef) => unknown;
type ReleaseHook<Tx> = (tx: Tx) => unknown;

/** How long a grant waits for its row, in milliseconds, before it is tried again. */
export const LOCK_MS = 100;

/** A grant, and the reading of the store's clock that its deadlines count from. */
export interface Asked<Outcome> {
  readonly outcome: Outcome;
  readonly localTimeMs: number;
}

/** A hook may take as long as the lease that it comes with lasts for its holder. */
export function boundOf(ladder: Ladder): number {
  return Math.min(GUEST_MS_MAX, ladder.hardAfterMs);
}

/**
 * Grants with a hook in the same transaction. `assertWanted` throws when the caller has given up;
 * it is called last before the commit.
 */
export async function grantWithHook<Tx>(
  store: CoordinatorStore<Tx>,
  request: GrantRequest,
  hook: GrantHook<Tx>,
  assertWanted: () => void,
): Promise<Asked<GrantOutcome>> {
  const boundMs = boundOf(request.ladder);
  const lastTry: LastTry = { overstayed: [] };
  const once = (): Promise<Asked<GrantOutcome>> =>
    guestTransaction(store, async (guest) => {
      await boundTransaction(guest.sql, { boundMs, lockMs: LOCK_MS });
      return withinBound(store, boundMs, async () => {
        const localTimeMs = store.clock.nowMs();
        const outcome = await grantWithin(store, guest.sql, request, lastTry);
        if (outcome === undefined) throw new LeaseError('grant.contended');
        if (outcome.outcome === 'granted') {
          await callGrantHook(guest, hook, { grant: outcome.grant, localTimeMs });
          assertWanted();
        }
        return { outcome, localTimeMs };
      });
    });
  // On a connection of its own, so not in the transaction: the pool may have no second one.
  await prepareGrants(store, [request]);
  await ensureLeaseRow(store.transitions, request);
  return orRefusal(store, retryContention(store, once), { requests: [request], lastTry });
}

/**
 * What a statement without hooks gives, which is its own transaction.
 * @throws {LeaseError} `request.outcome_unknown` if the connection broke while it ran.
 */
export async function orUnknown<Result>(statement: Promise<Result>): Promise<Result> {
  try {
    return await statement;
  } catch (cause) {
    if (cause instanceof LeaseError || databaseFailureOf(cause) !== 'lost') throw cause;
    throw new LeaseError('request.outcome_unknown', undefined, { cause });
  }
}

/**
 * What `grants` gives. When all of its tries were contended, the refusal instead, if there is one: a last holder has let
 * a lease run out, and keeps its row locked in a fenced transaction.
 */
export async function orRefusal<Granted>(
  store: KernelStore,
  grants: Promise<Granted>,
  { requests, lastTry }: { readonly requests: GrantRequests; readonly lastTry: LastTry },
): Promise<Granted | Asked<RefusedAtLast>> {
  try {
    return await grants;
  } catch (error) {
    if (!(error instanceof LeaseError) || error.code !== 'grant.contended') throw error;
    const localTimeMs = store.clock.nowMs();
    const outcome = await refusalAtLast(store, requests, lastTry);
    if (outcome === undefined) throw error;
    return { outcome, localTimeMs };
  }
}

type RefusedAtLast = NonNullable<Awaited<ReturnType<typeof refusalAtLast>>>;

export function callGrantHook<Tx>(
  guest: GuestTransaction<Tx>,
  hook: GrantHook<Tx>,
  made: {
    readonly grant: Pick<Grant, 'leaseId' | 'fencingToken' | 'ladder' | 'remainingMs'>;
    readonly localTimeMs: number;
  },
): Promise<unknown> {
  const { leaseId, fencingToken, ladder, remainingMs } = made.grant;
  const { loseAtMs } = leaseDeadlines(ladder, made.localTimeMs, remainingMs);
  return callHook(() => guest.call((tx) => hook(tx, loseAtMs, { leaseId, fencingToken })));
}

/**
 * Renews with a hook in the same transaction. The transaction commits before the lease would have
 * expired, or not at all: a reader of "expired" is never contradicted.
 * @throws {LeaseError} `lease.not_held` when it has ended; the plain renewal reports why.
 */
export async function renewWithHook<Tx>(
  store: CoordinatorStore<Tx>,
  request: GrantRef & { readonly principal: string },
  hook: GrantHook<Tx>,
): Promise<Asked<RenewOutcome>> {
  return retryContention(store, () =>
    inFence(store, [request], {
      async work(guest) {
        const localTimeMs = store.clock.nowMs();
        const outcome = await renewWithin(guest.sql, request);
        if (outcome.outcome === 'renewed') {
          const grant = { ...outcome, fencingToken: request.fencingToken };
          await callGrantHook(guest, hook, { grant, localTimeMs });
        }
        return { outcome, localTimeMs };
      },
      async close({ sql }, held) {
        if (!(await closeBefore(sql, held.expiresAt))) throw notHeld(request);
      },
    }),
  );
}

async function renewWithin(
  tx: Sql<'guests'>,
  request: GrantRef & { readonly principal: string },
): Promise<RenewOutcome> {
  const { leaseId } = request;
  const outcome = (await renew(tx, 'lease', [request])).outcomes.get(leaseId);
  if (outcome !== undefined) return outcome;
  const end = (await readEndedGrants(tx, 'lease', [request])).get(leaseId);
  if (end === 'current') throw new LeaseError('grant.contended');
  return { leaseId, outcome: 'refused', reason: end ?? 'not_found' };
}

/**
 * Releases with a hook in the same transaction; the hook is called only for what is released.
 * @throws {LeaseError} `lease.not_held` when it has ended; the plain release reports how.
 */
export async function releaseWithHook<Tx>(
  store: CoordinatorStore<Tx>,
  request: ReleaseRequest,
  hook: ReleaseHook<Tx>,
): Promise<ReleaseOutcome> {
  const { outcome, released } = await retryContention(store, () =>
    inFence(store, [request], {
      async work(guest) {
        const answer = await releaseAlone(guest.sql, 'lease', request);
        if (answer.outcome === 'released') await callHook(() => guest.call(hook));
        return answer;
      },
      // The release has locked the row: a revoke or a takeover waits for the commit.
      close: () => Promise.resolve(),
    }),
  );
  if (released !== undefined) {
    wakeWaiters(store, released);
    observeHeld(store, released);
  }
  store.observer.release('lease', outcome);
  return outcome;
}
