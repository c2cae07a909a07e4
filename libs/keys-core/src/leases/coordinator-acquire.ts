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
  guardNow,
  type LeaseStore,
  lookAtRefusals,
  prepareGrants,
  readClock,
  readGrant,
  refusedOutcome,
} from '../grants/index.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { Ladder } from '../kernel/ladder.ts';
import type { Grant, GrantOutcome, GrantRef, GrantRequest } from '../kernel/lease.ts';
import { LIMITS } from '../kernel/limits.ts';
import { type KernelStore, pause } from '../postgres/kernel-store.ts';
import {
  type CoordinatorStore,
  type GuestTransaction,
  guestTransaction,
  retryContention,
  withinBound,
} from '../postgres/guest-transaction.ts';
import type { Sql } from '../postgres/sql.ts';
import { heldAnswer } from './acquire-answers.ts';
import type { Acquirer } from './acquiring.ts';
import {
  type Asked,
  boundOf,
  callGrantHook,
  type GrantHook,
  grantWithHook,
  LOCK_MS,
} from './coordinator-transactions.ts';
import type { AnyUseCase } from './coordinator-types.ts';
import type { HeldAnswer } from './lease-types.ts';
import type { Refused } from './line.ts';

/** A grant as the coordinator keeps it. */
export type CoordinatedGrant = GrantRef & { readonly ladder: Ladder; readonly remainingMs: number };

/** The outcome of an acquire; a grant has the reading of the clock that its deadlines count from. */
export type Acquired =
  | {
      readonly outcome: 'granted';
      readonly grant: CoordinatedGrant;
      readonly localTimeMs: number;
      readonly waitedMs: number;
    }
  | HeldAnswer;

interface AcquireOnceDeps<Tx> {
  readonly store: CoordinatorStore<Tx>;
  readonly leases: LeaseStore;
  readonly acquirer: Acquirer;
  /** Releases a grant that nobody wants any more. */
  readonly giveBack: (ref: GrantRef) => Promise<unknown>;
}

interface AcquireRequest<Tx> {
  readonly lease: AnyUseCase<Tx>;
  readonly request: GrantRequest;
  readonly signal: AbortSignal;
}

/** @throws {LeaseError} `lease.wait_cancelled`, `grant.contended`; what the hook throws. */
export async function acquireOnce<Tx>(
  deps: AcquireOnceDeps<Tx>,
  wanted: AcquireRequest<Tx>,
  waitMs: number,
): Promise<Acquired> {
  const { request, signal } = wanted;
  const { clock } = deps.store;
  const startedAtMs = clock.nowMs();
  const elapsedMs = (): number => clock.nowMs() - startedAtMs;
  assertWanted(signal);
  const tries = new HookedTries(deps, wanted);
  const acquired = await deps.acquirer
    .acquire({
      request,
      waitMs,
      startedAtMs,
      life: { signal, isAlive: () => !signal.aborted },
      ask: (turn) => tries.ask(turn),
      inLine: (idempotencyKey) => ({ ...request, idempotencyKey }),
    })
    .catch((error: unknown) => {
      throw error instanceof HookFailure ? error.cause : error;
    });
  switch (acquired.outcome) {
    case 'refused':
      return heldAnswer('lease', acquired.refused, elapsedMs());
    case 'gave_up':
      return acquired.answer;
    // It has no calls that end before its wait.
    case 'waiting':
      return acquired.held;
    case 'granted':
    case 'recorded': {
      const grant = acquired.outcome === 'granted' ? acquired.grant : await tries.findGrant();
      const waitedMs = Math.round(elapsedMs());
      return { outcome: 'granted', grant, localTimeMs: tries.askedAtMs, waitedMs };
    }
  }
}

/** What a hook has thrown. It ends the acquire, even if it looks like an error that passes. */
class HookFailure extends LeaseError {
  constructor(cause: unknown) {
    super('internal.error', undefined, { cause });
  }
}

/** The tries of one acquire, each with its hook if there is one. */
class HookedTries<Tx> {
  readonly #deps: AcquireOnceDeps<Tx>;
  readonly #wanted: AcquireRequest<Tx>;
  /** The reading of the clock before the latest try. */
  #askedAtMs = 0;

  constructor(deps: AcquireOnceDeps<Tx>, wanted: AcquireRequest<Tx>) {
    this.#deps = deps;
    this.#wanted = wanted;
  }

  get askedAtMs(): number {
    return this.#askedAtMs;
  }

  /** One try. A grant that nobody wants any more is given back. */
  async ask(request: GrantRequest): Promise<GrantOutcome> {
    const { outcome, localTimeMs } = await this.#askOnce(request);
    const found = ownGrant(outcome, request);
    this.#askedAtMs = localTimeMs;
    if (found.outcome === 'granted' && this.#wanted.signal.aborted) {
      await this.#deps.giveBack(refOf(found.grant));
      throw new LeaseError('lease.wait_cancelled');
    }
    return found;
  }

  async #askOnce(request: GrantRequest): Promise<Asked<GrantOutcome>> {
    const { store, leases } = this.#deps;
    const { lease, signal } = this.#wanted;
    if (lease.willInsert === undefined) {
      // Before the deadlines begin to count: a process that has just started queries the database first.
      await prepareGrants(store, [request]);
      const localTimeMs = store.clock.nowMs();
      return { outcome: await leases.grant(request, signal), localTimeMs };
    }
    if (request.isQueued !== true) {
      // A plain read first, because the transaction of a hook is long.
      const localTimeMs = store.clock.nowMs();
      const refused = await leases.refusal(request, signal);
      if (refused !== undefined) return { outcome: refused, localTimeMs };
    }
    // In an object: it may throw any value, even undefined.
    let failure: { readonly error: unknown } | undefined;
    const hook: typeof lease.willInsert = async (tx, at, grant) => {
      try {
        await lease.willInsert?.(tx, at, grant);
      } catch (error) {
        failure = { error };
        throw error;
      }
    };
    return grantWithHook(store, request, hook, () => assertWanted(signal)).catch(
      (error: unknown) => {
        throw failure !== undefined && failure.error === error ? new HookFailure(error) : error;
      },
    );
  }

  /** The place in line is gone: it became a grant whose answer was lost, or it is lost permanently. */
  async findGrant(): Promise<CoordinatedGrant> {
    const { store } = this.#deps;
    const { request } = this.#wanted;
    this.#askedAtMs = store.clock.nowMs();
    const grant = await readGrant(store.general, request.leaseId);
    if (grant !== undefined && !isOwnedBy(grant, request)) throw usedKey();
    if (grant === undefined || grant.remainingMs <= 0) throw new LeaseError('grant.contended');
    return grant;
  }
}

export function refOf({ leaseId, fencingToken }: GrantRef): GrantRef {
  return { leaseId, fencingToken };
}

/**
 * A refusal that names the requested grant itself means that it was granted and the answer lost.
 * Its hook was committed with it.
 */
function ownGrant(outcome: GrantOutcome, request: GrantRequest): GrantOutcome {
  if (outcome.outcome !== 'held') return outcome;
  const { by } = outcome;
  const isOwn = by.leaseId === request.leaseId && isOwnedBy(by, request);
  if (!isOwn || by.endReason !== null || by.asOf >= by.expiresAt) return outcome;
  const grant: Grant = {
    ...by,
    ladder: by,
    remainingMs: by.expiresAt - by.asOf,
    freeMs: null,
    previous: null,
  };
  return { outcome: 'granted', grant };
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
    const found = isFirst ? await ask(store.general) : await store.general.$transaction(askHere);
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
