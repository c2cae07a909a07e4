/**
 * The acquires of a coordinator: `acquire`, with its first try and its wait in line, and `acquireOrRenew`, which
 * is one statement, alone or with its hooks in the same transaction.
 */
import {
  type AcquiredOrRenewed,
  acquireOrRenew,
  boundTransaction,
  closeBefore,
  ensureLeaseRow,
  type GrantAllOutcome,
  grantAllWithin,
  type GrantRequests,
  guardNow,
  type LastTry,
  lookAtRefusals,
  prepareGrants,
  preparePools,
  readClock,
  readGrants,
  refusedOutcome,
} from '../grants/index.ts';
import { invalidField, invariant, LeaseError } from '../kernel/errors.ts';
import type { Ladder } from '../kernel/ladder.ts';
import type { GrantRef, GrantRequest } from '../kernel/lease.ts';
import { LIMITS } from '../kernel/limits.ts';
import { repeatedAt } from '../kernel/resource.ts';
import { type KernelStore, pause } from '../postgres/kernel-store.ts';
import {
  type CoordinatorStore,
  type GuestTransaction,
  guestTransaction,
  retryContention,
  withinBound,
} from '../postgres/guest-transaction.ts';
import type { Sql } from '../postgres/sql.ts';
import { type Acquirer, type Asking, togetherOf } from './acquirer.ts';
import type { HeldAllAnswer } from './acquiring-all.ts';
import {
  type Asked,
  boundOf,
  callGrantHook,
  type GrantHook,
  grantWithHook,
  LOCK_MS,
  orRefusal,
  orUnknown,
} from './coordinator-transactions.ts';
import type { AnyUseCase } from './coordinator-types.ts';
import type { HeldAnswer } from './lease-types.ts';
import type { Refused } from './line.ts';

/** A grant as the coordinator keeps it. */
export type CoordinatedGrant = GrantRef & { readonly ladder: Ladder; readonly remainingMs: number };

/** The outcome of an acquire; its grants have the reading of the clock that their deadlines count from. */
type Acquired<Held> =
  | {
      readonly outcome: 'granted';
      readonly grants: readonly CoordinatedGrant[];
      readonly localTimeMs: number;
      readonly waitedMs: number;
    }
  | Held;

interface Wanted<Tx> {
  readonly leases: readonly AnyUseCase<Tx>[];
  /** In their order. */
  readonly requests: GrantRequests;
  readonly signal: AbortSignal;
}

/** How one lease is acquired, or several together. */
export interface AcquireOnceDeps<Tx, Held extends HeldAnswer> {
  readonly store: CoordinatorStore<Tx>;
  readonly asking: Asking<Held>;
  readonly acquirer: Acquirer<Held>;
  /** Grants them in one transaction with their hooks. */
  readonly grantHooked: (
    store: CoordinatorStore<Tx>,
    asking: Asking<Held>,
    wanted: Wanted<Tx>,
  ) => Promise<Asked<GrantAllOutcome>>;
}

/**
 * `giveBack` releases grants that nobody wants any more.
 * @throws {LeaseError} `lease.wait_cancelled`, `grant.contended`; what a hook throws.
 */
export async function acquireOnce<Tx, Held extends HeldAnswer>(
  deps: AcquireOnceDeps<Tx, Held>,
  wanted: Wanted<Tx>,
  {
    waitMs,
    giveBack,
  }: {
    readonly waitMs: number;
    readonly giveBack: (grants: readonly GrantRef[]) => Promise<unknown>;
  },
): Promise<Acquired<Held>> {
  const { store, asking, acquirer } = deps;
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
      async ask(turn) {
        const asked = await askOnce(deps, { ...wanted, requests: turn });
        ({ localTimeMs } = asked);
        const { outcome } = asked;
        if (outcome.outcome === 'granted' && signal.aborted) {
          await giveBack(outcome.grants.map(refOf));
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
      return asking.heldAnswer(requests, acquired.refused, elapsedMs());
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

async function askOnce<Tx, Held extends HeldAnswer>(
  { store, asking, grantHooked }: AcquireOnceDeps<Tx, Held>,
  wanted: Wanted<Tx>,
): Promise<Asked<GrantAllOutcome>> {
  const { leases, requests, signal } = wanted;
  // Before the deadlines begin to count: a process that has just started queries the database first.
  await prepareGrants(store, requests);
  const localTimeMs = store.clock.nowMs();
  if (leases.every(({ willInsert }) => willInsert === undefined)) {
    return { outcome: await asking.grant(requests, signal), localTimeMs };
  }
  // A plain read first, because the transaction of a hook is long.
  const refused = await asking.refusal(requests);
  if (refused !== undefined) return { outcome: refused, localTimeMs };
  for (const request of requests) await ensureLeaseRow(store.transitions, request);
  const prepared = await preparePools(store, requests);
  return grantHooked(store, asking, { ...wanted, requests: prepared });
}

/** What a hook has thrown. It ends the acquire, even if it looks like an error that passes. */
class HookFailure extends LeaseError {
  constructor(cause: unknown) {
    super('internal.error', undefined, { cause });
  }
}

/** Carries out `work`, which calls the hooks of grants. @throws {HookFailure} what one of them has thrown. */
async function withGrantHooks<Tx, Outcome>(
  leases: readonly AnyUseCase<Tx>[],
  work: (hooks: readonly (GrantHook<Tx> | undefined)[]) => Promise<Outcome>,
): Promise<Outcome> {
  // In an object: it may throw any value, even undefined.
  let failure: { readonly error: unknown } | undefined;
  const hooks = leases.map((lease): GrantHook<Tx> | undefined => {
    if (lease.willInsert === undefined) return undefined;
    return async (tx, at, grant) => {
      try {
        await lease.willInsert?.(tx, at, grant);
      } catch (error) {
        failure = { error };
        throw error;
      }
    };
  });
  return work(hooks).catch((error: unknown) => {
    throw failure !== undefined && failure.error === error ? new HookFailure(error) : error;
  });
}

/** A request for one lease: it is held if its last holder keeps its row locked after its time. */
export function grantOneHooked<Tx>(
  store: CoordinatorStore<Tx>,
  _asking: Asking<HeldAnswer>,
  { leases, requests: [request], signal }: Wanted<Tx>,
): Promise<Asked<GrantAllOutcome>> {
  return withGrantHooks(leases, async ([hook]) => {
    invariant(hook !== undefined, 'it has a hook');
    const asked = await grantWithHook(store, request, hook, () => assertWanted(signal));
    return { ...asked, outcome: togetherOf(asked.outcome) };
  });
}

/** A request for several: one statement grants them, and all hooks are in its transaction. Held as one is. */
export function grantAllHooked<Tx>(
  store: CoordinatorStore<Tx>,
  asking: Asking<HeldAllAnswer>,
  { leases, requests, signal }: Wanted<Tx>,
): Promise<Asked<GrantAllOutcome>> {
  const boundMs = Math.min(...requests.map(({ ladder }) => boundOf(ladder)));
  const lastTry: LastTry = { overstayed: [] };
  return withGrantHooks(leases, (hooks) => {
    const granting = retryContention(store, async (): Promise<Asked<GrantAllOutcome>> => {
      const localTimeMs = store.clock.nowMs();
      const grants = await guestTransaction(store, async (guest) => {
        await boundTransaction(guest.sql, { boundMs, lockMs: LOCK_MS });
        return withinBound(store, boundMs, async () => {
          const all = await grantAllWithin(store, guest.sql, requests, lastTry);
          for (const [place, grant] of (all ?? []).entries()) {
            const hook = hooks[place];
            if (hook !== undefined) await callGrantHook(guest, hook, { grant, localTimeMs });
          }
          assertWanted(signal);
          return all;
        });
      });
      if (grants !== undefined) return { outcome: { outcome: 'granted', grants }, localTimeMs };
      const outcome = await asking.refusal(requests);
      if (outcome === undefined) throw new LeaseError('grant.contended');
      return { outcome, localTimeMs };
    });
    return orRefusal(store, granting, { requests, lastTry });
  });
}

/** The places in line are gone: they became grants whose answer was lost, or are lost permanently. */
async function findGrants(
  { transitions }: Pick<KernelStore, 'transitions'>,
  requests: GrantRequests,
): Promise<CoordinatedGrant[]> {
  const [request] = requests;
  const grants = await readGrants(
    transitions,
    requests.map(({ leaseId }) => leaseId),
  );
  if (grants.some((grant) => !isOwnedBy(grant, request))) throw usedKey();
  const isHeld = grants.length === requests.length && grants.every((one) => one.remainingMs > 0);
  if (!isHeld) throw new LeaseError('grant.contended');
  return grants;
}

export function refOf({ leaseId, fencingToken }: GrantRef): GrantRef {
  return { leaseId, fencingToken };
}

export function usedKey(): LeaseError {
  return new LeaseError('request.invalid', 'key() names a lease that was obtained before', {
    details: { field: 'key' },
  });
}

/** Whether a grant is this holder's: two processes that give one `key()` are not one holder. */
function isOwnedBy(
  grant: { readonly holder: string; readonly principal: string },
  request: GrantRequest,
): boolean {
  return grant.holder === request.holder && grant.principal === request.principal;
}

function assertWanted(signal: AbortSignal): void {
  if (signal.aborted) throw new LeaseError('lease.wait_cancelled');
}

/**
 * @throws {LeaseError} `request.invalid` for an empty list, one that is too long, and a lease that is in it twice.
 */
export function assertTogether(
  requests: readonly GrantRequest[],
): asserts requests is GrantRequests {
  if (requests.length === 0 || requests.length > LIMITS.leasesTogetherMax) {
    const most = String(LIMITS.leasesTogetherMax);
    throw invalidField('leases', `must have at least 1 and at most ${most} elements`);
  }
  const place = repeatedAt(requests);
  if (place !== undefined) {
    throw invalidField(`leases[${String(place)}]`, 'must not be in the list twice');
  }
}

/** @throws {LeaseError} `request.invalid`. */
export function assertWait(waitMs: number): void {
  if (Number.isFinite(waitMs) && waitMs >= 0 && waitMs <= LIMITS.waitMsMax) return;
  const message = `waitMs must be a number from 0 to ${String(LIMITS.waitMsMax)}`;
  throw new LeaseError('request.invalid', message, { details: { field: 'waitMs' } });
}

/** How often acquireOrRenew tries while its row is locked, and the pause between the tries. */
const LOCKED_TRIES_MAX = 4;
const LOCKED_PAUSE_MS = 25;

interface AcquireOrRenewHooks<Tx> {
  readonly willInsert: GrantHook<Tx> | undefined;
  readonly willHeartbeat: GrantHook<Tx> | undefined;
}

/** Grants or renews the lease, or returns the refusal with the present holder. */
export async function acquireOrRenewOnce<Tx>(
  store: CoordinatorStore<Tx>,
  request: GrantRequest,
  hooks: AcquireOrRenewHooks<Tx>,
): Promise<Asked<AcquiredOrRenewed> | Refused> {
  assertAlone(request.mode === undefined);
  await prepareGrants(store, [request]);
  let held: Refused | undefined;
  for (let tries = 0; tries < LOCKED_TRIES_MAX; tries += 1) {
    const found = await askOrRenew(store, { request, hooks, isFirst: tries === 0 });
    if (found !== undefined) {
      observeFound(store, found.outcome);
      return found;
    }
    const [refusal] = await lookAtRefusals(store, store.general, [request]);
    const refused = refusedOutcome(store, refusal);
    assertAlone(refused?.outcome !== 'pooled');
    if (isRefused(refused) && !isOwnLocked(refused, request)) {
      store.observer.grant('lease', 'denied', refused.outcome === 'held' ? 'active' : 'free');
      return refused;
    }
    const row = refusal?.row;
    held = row === undefined ? undefined : { outcome: 'held', by: row, waiterCount: 0, doubtMs: 0 };
    await pause(store, LOCKED_PAUSE_MS);
  }
  // Another holder let it run out, and keeps the row locked. One's own must not be reported as lost.
  if (held !== undefined && !isOwnLocked(held, request)) return held;
  throw new LeaseError('grant.contended');
}

/** @throws {LeaseError} `request.invalid` for a lease that several may hold at once. */
function assertAlone(isAlone: boolean): void {
  if (isAlone) return;
  const message =
    'acquireOrRenew is for a lease that one holds at a time, and several may hold this one';
  throw new LeaseError('request.invalid', message, { details: { field: 'mode' } });
}

function isRefused(outcome: { readonly outcome: string } | undefined): outcome is Refused {
  return outcome?.outcome === 'held' || outcome?.outcome === 'queued';
}

/** Whether the grant in the way is the caller's own, and only a lock kept it from being renewed. */
function isOwnLocked(refused: Refused, request: GrantRequest): boolean {
  if (refused.outcome !== 'held') return false;
  const { by } = refused;
  return by.holder === request.holder && by.principal === request.principal && by.renewable;
}

/** Alone, or in one transaction with hooks. */
type Pool = 'general' | 'guests';

interface AskOrRenew<Tx> {
  readonly request: GrantRequest;
  readonly hooks: AcquireOrRenewHooks<Tx>;
  readonly isFirst: boolean;
}

async function askOrRenew<Tx>(
  store: CoordinatorStore<Tx>,
  { request, hooks, isFirst }: AskOrRenew<Tx>,
): Promise<Asked<AcquiredOrRenewed> | undefined> {
  const ask = async (sql: Sql<Pool>): Promise<Asked<AcquiredOrRenewed> | undefined> => {
    const localTimeMs = store.clock.nowMs();
    const outcome = await acquireOrRenew(sql, request, guardNow(store));
    if (outcome === undefined) return undefined;
    store.clockWatch.observe(outcome.asOf, localTimeMs, store.clock.nowMs());
    return { outcome, localTimeMs };
  };
  const askHere = async (tx: Sql<Pool>): ReturnType<typeof ask> => {
    await readClock(store, tx);
    return ask(tx);
  };
  if (hooks.willInsert === undefined && hooks.willHeartbeat === undefined) {
    // A first try that waited for a connection may have relied on too old a reading of the clock.
    const found = await orUnknown(
      isFirst ? ask(store.general) : store.general.$transaction(askHere),
    );
    if (found !== undefined) {
      const { fencingToken, run, position } = found.outcome;
      store.witness.saw({ fencingToken, place: { run, position } });
    }
    return found;
  }
  const boundMs = boundOf(request.ladder);
  await ensureLeaseRow(store.transitions, request);
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
  // The old expiry passed while the hook ran, and somebody may have read this: it is granted again.
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
