/** The transactions of the coordinator in which hooks run, and the one statement of acquireOrRenew. */
import { LeaseError } from '../../kernel/errors.ts';
import type { Ladder } from '../../kernel/ladder.ts';
import type {
  Grant,
  GrantOutcome,
  GrantRef,
  GrantRequest,
  ReleaseOutcome,
  RenewOutcome,
} from '../../kernel/outcomes.ts';
import {
  type AcquiredOrRenewed,
  type ReleaseRequest,
  acquireOrRenew,
  assertNoHoldOff,
  boundTransaction,
  closeBefore,
  grantWithin,
  guardNow,
  inFence,
  isOverstayed,
  lookAtRefusals,
  notHeld,
  observeHeld,
  place,
  prepareGrants,
  readClock,
  readEndedGrants,
  refusedOutcome,
  releaseAlone,
  renew,
  wakeWaiters,
} from '../../grants/index.ts';
import {
  GUEST_MS_MAX,
  callHook,
  guestTransaction,
  retryContention,
  withinBound,
  type CoordinatorStore,
  type GuestTransaction,
} from '../../postgres/service/guest-transaction.ts';
import type { KernelStore } from '../../postgres/kernel-store.ts';
import type { Sql } from '../../postgres/rows.ts';
import { pause } from '../../postgres/timed.ts';
import { leaseDeadlines } from '../deadlines.ts';
import type { Refused } from '../line.ts';

/** What a hook of a grant or a renewal is given: see LeaseUseCase. */
export type GrantHook<Tx> = (tx: Tx, at: number, grant: GrantRef) => unknown;
type ReleaseHook<Tx> = (tx: Tx) => unknown;

/** How long a grant waits for its row, in milliseconds, before it is tried again. */
const LOCK_MS = 100;
/** How often acquireOrRenew looks again when its row was locked, this long apart. */
const LOCKED_TRIES_MAX = 4;
const LOCKED_PAUSE_MS = 25;

/** A grant, and the reading of the store's clock that its deadlines count from. */
export interface Asked<Outcome> {
  readonly outcome: Outcome;
  readonly localTimeMs: number;
}

/** A hook may take as long as the lease that it comes with lasts for its holder. */
function boundOf(ladder: Ladder): number {
  return Math.min(GUEST_MS_MAX, ladder.hardAfterMs);
}

/**
 * Grants with a hook in the same transaction. `assertWanted` throws when the caller has given up, and
 * has the last word before the commit.
 */
export async function grantWithHook<Tx>(
  store: CoordinatorStore<Tx>,
  request: GrantRequest,
  hook: GrantHook<Tx>,
  assertWanted: () => void,
): Promise<Asked<GrantOutcome>> {
  const boundMs = boundOf(request.ladder);
  const once = (): Promise<Asked<GrantOutcome>> =>
    guestTransaction(store, async (guest) => {
      await boundTransaction(guest.sql, { boundMs, lockMs: LOCK_MS });
      return withinBound(store, boundMs, async () => {
        const localTimeMs = store.clock.nowMs();
        const outcome = await grantWithin(store, guest.sql, request);
        if (outcome === undefined) throw new LeaseError('grant.contended');
        if (outcome.outcome === 'granted') {
          await callGrantHook(guest, hook, { grant: outcome.grant, localTimeMs });
          assertWanted();
        }
        return { outcome, localTimeMs };
      });
    });
  // Over a connection of its own, so not within: the pool may have no other.
  await prepareGrants(store, [request]);
  await place(store.transitions, request);
  try {
    return await retryContention(store, once);
  } catch (error) {
    if (!(error instanceof LeaseError) || error.code !== 'grant.contended') throw error;
    // Its last holder has let it run out, and keeps the row locked: a fenced transaction.
    const localTimeMs = store.clock.nowMs();
    const [refusal] = await lookAtRefusals(store, store.prisma, [request]);
    if (refusal?.row === undefined || !isOverstayed(refusal.row)) throw error;
    const { row, waiterCount } = refusal;
    return { outcome: { outcome: 'held', by: row, waiterCount, doubtMs: 0 }, localTimeMs };
  }
}

function callGrantHook<Tx>(
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
 * expired, or not at all: who has read "expired" meanwhile is never contradicted.
 * @throws {LeaseError} `lease.not_held` when it is over; why, the plain renewal says.
 */
export async function renewWithHook<Tx>(
  store: CoordinatorStore<Tx>,
  request: GrantRef & { readonly principal: string },
  hook: GrantHook<Tx>,
): Promise<Asked<RenewOutcome>> {
  return retryContention(store, () =>
    inFence(store, request, {
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
  tx: Sql,
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
 * @throws {LeaseError} `lease.not_held` when it is over; how, the plain release says.
 */
export async function releaseWithHook<Tx>(
  store: CoordinatorStore<Tx>,
  request: ReleaseRequest,
  hook: ReleaseHook<Tx>,
): Promise<ReleaseOutcome> {
  const { outcome, released } = await retryContention(store, () =>
    inFence(store, request, {
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

export interface AcquireOrRenewHooks<Tx> {
  readonly willInsert: GrantHook<Tx> | undefined;
  readonly willHeartbeat: GrantHook<Tx> | undefined;
}

/** A caller that names a holder has the lease, or is told who has. */
export async function acquireOrRenewOnce<Tx>(
  store: CoordinatorStore<Tx>,
  request: GrantRequest,
  hooks: AcquireOrRenewHooks<Tx>,
): Promise<Asked<AcquiredOrRenewed> | Refused> {
  await prepareGrants(store, [request]);
  let held: Refused | undefined;
  for (let tries = 0; tries < LOCKED_TRIES_MAX; tries += 1) {
    const found = await askOrRenew(store, { request, hooks, isFirst: tries === 0 });
    if (found !== undefined) {
      observeFound(store, found.outcome);
      return found;
    }
    await assertNoHoldOff(store, store.prisma);
    const [refusal] = await lookAtRefusals(store, store.prisma, [request]);
    const refused = refusedOutcome(store, refusal);
    if (isRefused(refused) && !isOwnLocked(refused, request)) {
      store.observer.grant('lease', 'denied', refused.outcome === 'held' ? 'active' : 'free');
      return refused;
    }
    const row = refusal?.row;
    held = row === undefined ? undefined : { outcome: 'held', by: row, waiterCount: 0, doubtMs: 0 };
    await pause(store, LOCKED_PAUSE_MS);
  }
  // Another let it run out, and keeps the row locked. Of one's own it must not be said to be lost.
  if (held !== undefined && !isOwnLocked(held, request)) return held;
  throw new LeaseError('grant.contended');
}

function isRefused(outcome: GrantOutcome | undefined): outcome is Refused {
  return outcome?.outcome === 'held' || outcome?.outcome === 'queued';
}

/** Whether the grant in the way is the asker's own, which could have been renewed except for a lock. */
function isOwnLocked(refused: Refused, request: GrantRequest): boolean {
  if (refused.outcome !== 'held') return false;
  const { by } = refused;
  return by.holder === request.holder && by.principal === request.principal && by.renewable;
}

interface AskOrRenew<Tx> {
  readonly request: GrantRequest;
  readonly hooks: AcquireOrRenewHooks<Tx>;
  readonly isFirst: boolean;
}

async function askOrRenew<Tx>(
  store: CoordinatorStore<Tx>,
  { request, hooks, isFirst }: AskOrRenew<Tx>,
): Promise<Asked<AcquiredOrRenewed> | undefined> {
  const ask = async (sql: Sql): Promise<Asked<AcquiredOrRenewed> | undefined> => {
    const localTimeMs = store.clock.nowMs();
    const outcome = await acquireOrRenew(sql, request, guardNow(store));
    if (outcome === undefined) return undefined;
    store.clockWatch.observe(outcome.asOf, localTimeMs, store.clock.nowMs());
    return { outcome, localTimeMs };
  };
  const askHere = async (tx: Sql): ReturnType<typeof ask> => {
    await readClock(store, tx);
    return ask(tx);
  };
  if (hooks.willInsert === undefined && hooks.willHeartbeat === undefined) {
    // A first try may have been late for the clock to be believed: it had waited for a connection.
    const found = isFirst ? await ask(store.prisma) : await store.prisma.$transaction(askHere);
    if (found !== undefined) {
      const { fencingToken, run, position } = found.outcome;
      store.witness.saw({ fencingToken, place: { run, position } });
    }
    return found;
  }
  const boundMs = boundOf(request.ladder);
  await place(store.transitions, request);
  return retryContention(store, () =>
    guestTransaction(store, async (guest) => {
      await boundTransaction(guest.sql, { boundMs, lockMs: LOCK_MS });
      return withinBound(store, boundMs, async () => {
        const found = await askHere(guest.sql);
        if (found !== undefined) await callFoundHook(guest, hooks, found);
        return found;
      });
    }),
  );
}

async function callFoundHook<Tx>(
  guest: GuestTransaction<Tx>,
  hooks: AcquireOrRenewHooks<Tx>,
  { outcome: found, localTimeMs }: Asked<AcquiredOrRenewed>,
): Promise<void> {
  const hook = found.outcome === 'granted' ? hooks.willInsert : hooks.willHeartbeat;
  if (hook === undefined) return;
  const grant = { ...found, ladder: found, remainingMs: found.expiresAt - found.asOf };
  await callGrantHook(guest, hook, { grant, localTimeMs });
  // The old expiry passed beside the hook: somebody may have read that it did. It is granted again.
  if (found.expiredAt !== null && !(await closeBefore(guest.sql, found.expiredAt))) {
    throw new LeaseError('grant.contended');
  }
}

function observeFound(store: KernelStore, found: AcquiredOrRenewed): void {
  if (found.outcome === 'renewed') {
    store.observer.renewal('lease', 'renewed', 1);
    return;
  }
  const isTakenOver = ['expired', 'lapsed', 'unconfirmed'].includes(found.previousEnd ?? '');
  store.observer.grant('lease', 'granted', isTakenOver ? 'expired' : 'free');
}
