/** An acquire of several leases by a coordinator: one statement grants them, and all hooks are in its transaction. */
import {
  boundTransaction,
  ensureLeaseRow,
  type GrantAllOutcome,
  grantAllWithin,
  type GrantRequests,
  type GroupGranter,
  prepareGrants,
  readGrants,
} from '../grants/index.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { GrantRef, GrantRequest } from '../kernel/lease.ts';
import { LIMITS } from '../kernel/limits.ts';
import { repeatedAt } from '../kernel/resource.ts';
import {
  type CoordinatorStore,
  guestTransaction,
  retryContention,
  withinBound,
} from '../postgres/guest-transaction.ts';
import { type GroupAcquirer, heldAllAnswer } from './acquiring-all.ts';
import type { CoordinatedGrant } from './coordinator-acquire.ts';
import { type Asked, boundOf, callGrantHook, LOCK_MS } from './coordinator-transactions.ts';
import type { AnyUseCase } from './coordinator-types.ts';
import type { HeldAllAnswer } from './lease-types.ts';

/** The outcome; grants have the reading of the clock that their deadlines count from. */
type AcquiredTogether =
  | {
      readonly outcome: 'granted';
      readonly grants: readonly CoordinatedGrant[];
      readonly localTimeMs: number;
      readonly waitedMs: number;
    }
  | HeldAllAnswer;

interface AcquireAllDeps<Tx> {
  readonly store: CoordinatorStore<Tx>;
  readonly acquirer: GroupAcquirer;
  /** Releases grants that nobody wants any more. */
  readonly giveBack: (grants: readonly GrantRef[]) => Promise<unknown>;
}

interface WantedLeases<Tx> {
  readonly leases: readonly AnyUseCase<Tx>[];
  /** In their order. */
  readonly requests: GrantRequests;
  readonly signal: AbortSignal;
}

/**
 * @throws {LeaseError} `request.invalid` for an empty list, one that is too long, and a lease that is in it twice.
 */
export function assertTogether(
  requests: readonly GrantRequest[],
): asserts requests is GrantRequests {
  const invalid = (field: string, problem: string): LeaseError =>
    new LeaseError('request.invalid', `${field} ${problem}`, { details: { field } });
  if (requests.length === 0 || requests.length > LIMITS.leasesTogetherMax) {
    const most = String(LIMITS.leasesTogetherMax);
    throw invalid('leases', `must have at least 1 and at most ${most} elements`);
  }
  const place = repeatedAt(requests);
  if (place !== undefined) {
    throw invalid(`leases[${String(place)}]`, 'must not be in the list twice');
  }
}

/** @throws {LeaseError} `lease.wait_cancelled`, `grant.contended`; what a hook throws. */
export async function acquireAllOnce<Tx>(
  deps: AcquireAllDeps<Tx>,
  wanted: WantedLeases<Tx>,
  waitMs: number,
): Promise<AcquiredTogether> {
  const { store, acquirer } = deps;
  const { requests, signal } = wanted;
  const startedAtMs = store.clock.nowMs();
  const elapsedMs = (): number => store.clock.nowMs() - startedAtMs;
  let localTimeMs = startedAtMs;
  assertWanted(signal);
  const acquired = await acquirer
    .acquire({
      requests,
      waitMs,
      startedAtMs,
      life: { signal, isAlive: () => !signal.aborted },
      async ask(turn, granter) {
        const asked = await askOnce(deps.store, { ...wanted, requests: turn }, granter);
        ({ localTimeMs } = asked);
        const { outcome } = asked;
        if (outcome.outcome === 'granted' && signal.aborted) {
          await deps.giveBack(outcome.grants);
          throw new LeaseError('lease.wait_cancelled');
        }
        return outcome;
      },
      // Nobody gives them up by this key.
      inLine: (idempotencyKey) => [{ ...requests[0], idempotencyKey }, ...requests.slice(1)],
    })
    .catch((error: unknown) => {
      throw error instanceof HookFailure ? error.cause : error;
    });
  switch (acquired.outcome) {
    case 'refused':
      return heldAllAnswer(requests, acquired.refused, elapsedMs());
    case 'gave_up':
      return acquired.answer;
    case 'waiting':
      throw new LeaseError('internal.error');
    case 'granted':
    case 'recorded': {
      if (acquired.outcome === 'recorded') localTimeMs = store.clock.nowMs();
      const grants =
        acquired.outcome === 'granted' ? acquired.grants : await findGrants(store, requests);
      return { outcome: 'granted', grants, localTimeMs, waitedMs: Math.round(elapsedMs()) };
    }
  }
}

/** What a hook has thrown. It ends the acquire, even if it looks like an error that passes. */
class HookFailure extends LeaseError {
  constructor(cause: unknown) {
    super('internal.error', undefined, { cause });
  }
}

async function askOnce<Tx>(
  store: CoordinatorStore<Tx>,
  wanted: WantedLeases<Tx>,
  granter: GroupGranter,
): Promise<Asked<GrantAllOutcome>> {
  const { leases, requests, signal } = wanted;
  // Before the deadlines begin to count: a process that has just started queries the database first.
  await prepareGrants(store, requests);
  const localTimeMs = store.clock.nowMs();
  if (leases.every(({ willInsert }) => willInsert === undefined)) {
    return { outcome: await granter.grantAll(requests, signal), localTimeMs };
  }
  // A plain read first, because the transaction of a hook is long.
  const refused = await granter.refusalOfAll(requests);
  if (refused !== undefined) return { outcome: refused, localTimeMs };
  for (const request of requests) await ensureLeaseRow(store.transitions, request);
  return retryContention(store, async () => {
    const granted = await grantWithHooks(store, wanted);
    if (granted !== undefined) return granted;
    const outcome = await granter.refusalOfAll(requests);
    if (outcome === undefined) throw new LeaseError('grant.contended');
    return { outcome, localTimeMs };
  });
}

async function grantWithHooks<Tx>(
  store: CoordinatorStore<Tx>,
  { leases, requests, signal }: WantedLeases<Tx>,
): Promise<Asked<GrantAllOutcome> | undefined> {
  const boundMs = Math.min(...requests.map(({ ladder }) => boundOf(ladder)));
  return guestTransaction(store, async (guest) => {
    await boundTransaction(guest.sql, { boundMs, lockMs: LOCK_MS });
    return withinBound(store, boundMs, async () => {
      const localTimeMs = store.clock.nowMs();
      const grants = await grantAllWithin(store, guest.sql, requests);
      if (grants === undefined) return undefined;
      for (const [place, grant] of grants.entries()) {
        const lease = leases[place];
        if (lease?.willInsert === undefined) continue;
        // In an object: it may throw any value, even undefined.
        let failure: { readonly error: unknown } | undefined;
        const hook: typeof lease.willInsert = async (tx, at, ref) => {
          try {
            await lease.willInsert?.(tx, at, ref);
          } catch (error) {
            failure = { error };
            throw error;
          }
        };
        await callGrantHook(guest, hook, { grant, localTimeMs }).catch((error: unknown) => {
          throw failure !== undefined && failure.error === error ? new HookFailure(error) : error;
        });
      }
      assertWanted(signal);
      return { outcome: { outcome: 'granted', grants }, localTimeMs };
    });
  });
}

/** The places in line are gone: they became grants whose answer was lost, or are lost permanently. */
async function findGrants(
  store: Pick<CoordinatorStore<never>, 'transitions'>,
  requests: GrantRequests,
): Promise<CoordinatedGrant[]> {
  const grants = await readGrants(
    store.transitions,
    requests.map(({ leaseId }) => leaseId),
  );
  const [{ holder, principal }] = requests;
  const isOwn = grants.every(
    (grant) => grant.holder === holder && grant.principal === principal && grant.remainingMs > 0,
  );
  if (!isOwn || grants.length < requests.length) throw new LeaseError('grant.contended');
  return grants;
}

function assertWanted(signal: AbortSignal): void {
  if (signal.aborted) throw new LeaseError('lease.wait_cancelled');
}
