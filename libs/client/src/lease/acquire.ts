/** Acquires a lease of either face: from the intent to the lease that is kept. */
import { LIMITS, serviceLadder, UNCONFIRMED_LADDER } from '@leasehold/keys-core';
import type { AcquireAnswer, HeldAnswer, LeaseRenewResult } from '@leasehold/keys-core/leases';
import { currentContext, outsideOfWork } from '../context/work-context.ts';
import type { Machine } from '../machine.ts';
import { linkSignals, type Ending } from '../signals.ts';
import {
  LeaseholdCallError,
  OutcomeUnknownError,
  type UnreachableError,
} from '../transport/errors.ts';
import {
  callWithin,
  isPassing,
  mayPassInTime,
  pauseBeforeRetry,
  untilAnswered,
  type Background,
} from './calls.ts';
import { HeldLease } from './held-lease.ts';
import type { Holdings } from './holdings.ts';
import type { AcquireRequest, LeaseWire } from './lease-wire.ts';
import {
  LeaseHeldError,
  LeaseSelfDeadlockError,
  LeaseWaitTimeoutError,
  scopeText,
  type HeldBy,
  type Lease,
  type LeaseScope,
} from './lease.ts';

/** How often a place in line is taken for a grant that is to be confirmed. */
const CONFIRMING_TRIES_MAX = 3;

/** For so long one that was sent alone and has no answer may be one of many: then the next are sent together. */
const ALONE_MS = 20;

/** What a caller wants to acquire. */
export interface AcquireIntent extends Omit<
  AcquireRequest,
  'idempotencyKey' | 'namespace' | 'key' | 'confirms'
> {
  readonly scope: LeaseScope;
  readonly waitMs: number;
  readonly renews: boolean;
  readonly signal: AbortSignal | undefined;
}

/**
 * The result of an attempt without waiting. `await using` releases the lease if one was granted.
 */
export type LeaseAttempt = AsyncDisposable &
  (
    { readonly outcome: 'granted'; readonly lease: Lease } | ({ readonly outcome: 'held' } & HeldBy)
  );

interface LeaseTakerDeps extends AcquireDeps {
  readonly holdings: Holdings;
  /** Tells scopes of different controllers apart. */
  readonly url: string;
  /** Called before each acquire. */
  readonly beforeAcquire: () => void;
}

export class LeaseTaker {
  readonly #deps: LeaseTakerDeps;
  readonly #machine: Machine;
  /** How many ask together with others now. */
  #togetherCount = 0;
  /** Since when the latest asks alone. */
  #aloneSinceMs = -Infinity;

  constructor(deps: LeaseTakerDeps) {
    this.#deps = deps;
    this.#machine = deps.machine;
  }

  /** @throws {LeaseHeldError}, {@link LeaseWaitTimeoutError}, {@link LeaseSelfDeadlockError}; see `acquireGrant`. */
  async acquire(intent: AcquireIntent): Promise<HeldLease> {
    const taken = await this.#take(intent);
    if (taken instanceof HeldLease) return taken;
    const heldBy = heldByOf(taken);
    throw intent.waitMs > 0
      ? new LeaseWaitTimeoutError(intent.scope, heldBy)
      : new LeaseHeldError(intent.scope, heldBy);
  }

  /** Never waits; the holder is returned as a value. @throws see `acquireGrant`. */
  async tryAcquire(intent: Omit<AcquireIntent, 'waitMs'>): Promise<LeaseAttempt> {
    const taken = await this.#take({ ...intent, waitMs: 0 });
    return taken instanceof HeldLease
      ? {
          outcome: 'granted',
          lease: taken,
          [Symbol.asyncDispose]: () => taken[Symbol.asyncDispose](),
        }
      : { outcome: 'held', ...heldByOf(taken), [Symbol.asyncDispose]: () => Promise.resolve() };
  }

  async #take(intent: AcquireIntent): Promise<HeldLease | HeldAnswer> {
    const { closing } = this.#deps.background;
    closing.throwIfAborted();
    const outer = currentContext();
    outer?.throwIfOver();
    const scopeId = [
      this.#deps.url,
      intent.datacenter ?? '',
      intent.scope.face,
      scopeText(intent.scope),
    ].join('\0');
    if (intent.waitMs > 0 && outer?.holds(scopeId) === true) {
      throw new LeaseSelfDeadlockError(intent.scope);
    }
    this.#deps.beforeAcquire();
    using linked = linkSignals([intent.signal, outer?.signal, closing]);
    const acquired = await this.#ask(intent, linked.signal);
    if (acquired.answer.outcome === 'held') return acquired.answer;
    const lease = this.#leaseOf(intent, acquired.answer, { acquired, scopeId });
    return await this.#confirmed(lease, linked.signal);
  }

  /**
   * A caller that may wait asks and waits in one call. While others are asking, it first asks in one call with
   * them, because most leases are free, and only if it is refused waits in line, with an attempt of its own.
   */
  async #ask(intent: AcquireIntent, signal: AbortSignal | undefined): Promise<Acquired> {
    const { clock } = this.#machine;
    const endsAtMs = clock.nowMs() + intent.waitMs;
    if (intent.waitMs > 0 && this.#isAlone()) {
      const sinceMs = clock.nowMs();
      this.#aloneSinceMs = sinceMs;
      try {
        return await this.#waitInLine(intent, endsAtMs, signal);
      } finally {
        if (this.#aloneSinceMs === sinceMs) this.#aloneSinceMs = -Infinity;
      }
    }
    this.#togetherCount += 1;
    try {
      const first = await acquireGrant(this.#deps, this.#requestOf(intent), { waitMs: 0, signal });
      if (first.answer.outcome === 'granted' || endsAtMs <= clock.nowMs()) return first;
    } finally {
      this.#togetherCount -= 1;
    }
    return this.#waitInLine(intent, endsAtMs, signal);
  }

  #isAlone(): boolean {
    const nowMs = this.#machine.clock.nowMs();
    return (
      this.#togetherCount === 0 &&
      nowMs - this.#aloneSinceMs >= ALONE_MS &&
      // What a controller does not get must not take the time in line to fail.
      this.#deps.wire.unreachableSince(nowMs) === undefined
    );
  }

  /**
   * A place in line is lost with its connection, or with a grant that was confirmed too late; then a
   * new one is taken. After a few losses it is taken without confirming: the network may be too slow.
   */
  async #waitInLine(
    intent: AcquireIntent,
    endsAtMs: number,
    signal: AbortSignal | undefined,
  ): Promise<Acquired> {
    for (let lossCount = 1; ; lossCount += 1) {
      const waitMs = Math.max(0, endsAtMs - this.#machine.clock.nowMs());
      try {
        const confirms = waitMs > 0 && lossCount <= CONFIRMING_TRIES_MAX;
        const request = { ...this.#requestOf(intent), confirms };
        return await acquireGrant(this.#deps, request, { waitMs, signal });
      } catch (error) {
        const isPlaceLost =
          error instanceof LeaseholdCallError && error.code === 'lease.wait_cancelled';
        if (!isPlaceLost || waitMs === 0) throw error;
      }
      await pauseBeforeRetry(this.#machine, lossCount, signal);
    }
  }

  #requestOf(intent: AcquireIntent): AcquireRequest {
    const { scope, ttlMs, holder, action, comment, metadata, datacenter } = intent;
    return {
      ttlMs,
      holder,
      action,
      comment,
      metadata,
      datacenter,
      namespace: scope.namespace,
      key: scope.key,
      idempotencyKey: this.#machine.uuid(),
    };
  }

  #leaseOf(
    intent: AcquireIntent,
    answer: Extract<AcquireAnswer, { outcome: 'granted' }>,
    { acquired, scopeId }: { readonly acquired: Acquired; readonly scopeId: string },
  ): HeldLease {
    const ladder = serviceLadder(intent.ttlMs ?? LIMITS.ttlMsMax);
    const graceMs = ladder.ttlMs - ladder.hardAfterMs;
    const lease = new HeldLease({
      machine: this.#machine,
      owner: this.#deps.holdings,
      scope: intent.scope,
      scopeId,
      granted: answer.lease,
      ttlMs: intent.ttlMs,
      renews: intent.renews,
      datacenter: intent.datacenter,
      isConfirmed: acquired.tookMs <= graceMs,
      outer: currentContext(),
    });
    if (lease.loseAtMs - this.#machine.clock.nowMs() > ladder.ttlMs) {
      // It belongs to another clock: no work may rely on it.
      void lease.release('failed');
      throw new LeaseholdCallError('internal.error', { message: 'A deadline beyond the TTL.' });
    }
    this.#deps.holdings.adopt(lease);
    return lease;
  }

  /** A lease whose answer took too long is handed out once the controller has renewed it. */
  async #confirmed(lease: HeldLease, signal: AbortSignal | undefined): Promise<HeldLease> {
    if (lease.isHeld && signal?.aborted !== true) return lease;
    const giveUp = (): void => void lease.release('failed');
    signal?.addEventListener('abort', giveUp, { once: true });
    try {
      signal?.throwIfAborted();
      await lease.confirm();
      return lease;
    } catch (error) {
      // In the background: the caller has its answer.
      void lease.release('failed');
      throw signal?.aborted === true ? signal.reason : error;
    } finally {
      signal?.removeEventListener('abort', giveUp);
    }
  }
}

function heldByOf({
  by,
  since,
  remainingMs,
  waitedMs,
  comment,
  action,
  waiters,
}: HeldAnswer): HeldBy {
  return { by, since, remainingMs, waitedMs, comment, action, waiters };
}

// How a grant is requested: one attempt has one idempotency key, and is sent again with it when its
// answer was lost, so that it is granted at most once. A caller that gives up makes sure, in the
// background, that the attempt holds nothing.
//
// An attempt that waits in line confirms its grant: it renews it before its caller gets it. Until then
// the grant is a short one, so that a lost answer costs the callers behind it a second and not a TTL.

/** How long one try may take beyond the time in line. */
const TRY_MS = 5_000;
const GIVE_UP_TRY_MS = 2_000;
/** How long one try to confirm may take: a few are made in the short first term of the grant. */
const CONFIRM_TRY_MS = 250;

interface AcquireDeps {
  readonly machine: Machine;
  readonly wire: LeaseWire;
  readonly background: Background;
  /** How long to wait for an answer beyond the time in line, retries included. Milliseconds. */
  readonly answerMs: number;
  /** Whether to try no more, for an acquire that began at that moment. */
  readonly isHopeless?: ((momentMs: number) => boolean) | undefined;
}

interface AcquireBounds {
  readonly waitMs: number;
  readonly signal: AbortSignal | undefined;
}

/** An answer, and how long the call took that its deadlines are from. */
interface Acquired {
  readonly answer: AcquireAnswer;
  readonly tookMs: number;
}

type Granted = Extract<AcquireAnswer, { outcome: 'granted' }>;

/**
 * @throws {UnreachableError} nothing was sent; {@link OutcomeUnknownError} no answer came in time, and
 * the attempt is being given up; the reason of the signal, likewise; `lease.wait_cancelled` when its
 * place in line is gone, or its grant was not confirmed in time; or the error that was answered.
 */
async function acquireGrant(
  deps: AcquireDeps,
  request: AcquireRequest,
  { waitMs, signal }: AcquireBounds,
): Promise<Acquired> {
  signal?.throwIfAborted();
  const attempt = new Attempt(deps, request, waitMs);
  try {
    const acquired = await attempt.carryOut(signal);
    const { answer } = acquired;
    const isConfirmed = request.confirms !== true || !isShort(deps.machine, acquired);
    if (answer.outcome === 'held' || isConfirmed) return acquired;
    return await attempt.confirm(answer, signal);
  } catch (error) {
    // An earlier try may have arrived, even if the last one did not.
    if (signal?.aborted === true || mayPassInTime(error)) attempt.giveUp();
    const isUnknown = error instanceof OutcomeUnknownError;
    throw (isUnknown ? attempt.unreachable() : undefined) ?? error;
  }
}

/** Whether a grant may be one that is to be confirmed; one that was free at once lasts its whole TTL. */
function isShort({ clock }: Machine, { answer }: Acquired): boolean {
  if (answer.outcome === 'held') return false;
  return answer.lease.deadlines.loseAtMs - clock.nowMs() <= UNCONFIRMED_LADDER.hardAfterMs;
}

class Attempt {
  readonly #deps: AcquireDeps;
  readonly #request: AcquireRequest;
  readonly #waitMs: number;
  readonly #beganAtMs: number;

  constructor(deps: AcquireDeps, request: AcquireRequest, waitMs: number) {
    this.#deps = deps;
    this.#request = request;
    this.#waitMs = waitMs;
    this.#beganAtMs = deps.machine.clock.nowMs();
  }

  async carryOut(signal: AbortSignal | undefined): Promise<Acquired> {
    const { machine, answerMs } = this.#deps;
    const tryMs = Math.min(TRY_MS, answerMs);
    for (let failureCount = 1; ; failureCount += 1) {
      const sentAtMs = machine.clock.nowMs();
      const lineMs = Math.max(0, this.#waitMs - (sentAtMs - this.#beganAtMs));
      try {
        const answer = await callWithin(machine, { ms: lineMs + tryMs, signal }, (ending) =>
          outsideOfWork(() => this.#deps.wire.acquire(this.#request, lineMs, ending)),
        );
        return { answer, tookMs: machine.clock.nowMs() - sentAtMs };
      } catch (error) {
        const tookMs = machine.clock.nowMs() - this.#beganAtMs;
        const isOver = tookMs >= this.#waitMs + answerMs;
        if (signal?.aborted === true || !isPassing(error) || isOver) throw error;
        if (this.#deps.isHopeless?.(this.#beganAtMs) === true) throw error;
      }
      await pauseBeforeRetry(machine, failureCount, signal);
    }
  }

  /** Renews a grant for the first time. It is handed out only then, with deadlines for the whole TTL. */
  async confirm(answer: Granted, signal: AbortSignal | undefined): Promise<Acquired> {
    const { machine, background } = this.#deps;
    const { leaseId, deadlines } = answer.lease;
    const bounds = {
      untilMs: deadlines.loseAtMs,
      tryMs: CONFIRM_TRY_MS,
      signal: signal ?? background.signal,
    };
    let sentAtMs = 0;
    const result = await untilAnswered(machine, bounds, async (ending) => {
      sentAtMs = machine.clock.nowMs();
      return outsideOfWork(() => this.#renewOnce(answer.lease, ending));
    }).catch((error: unknown) => {
      if (!isPassing(error)) throw error;
      // The renewal may have arrived: then the grant has its whole TTL, and nobody wants it any more.
      this.giveUp();
      throw new LeaseholdCallError('lease.wait_cancelled', { cause: error });
    });
    if (result.outcome === 'refused') {
      throw new LeaseholdCallError('lease.wait_cancelled', {
        details: { leaseId, reason: result.reason },
      });
    }
    const lease = { ...answer.lease, deadlines: result.deadlines };
    return { answer: { ...answer, lease }, tookMs: machine.clock.nowMs() - sentAtMs };
  }

  async #renewOnce(
    { leaseId, fencingToken }: Granted['lease'],
    ending: Ending,
  ): Promise<LeaseRenewResult> {
    const { wire } = this.#deps;
    const ref = { leaseId, fencingToken };
    const [result] = await wire.heartbeat([ref], ending, this.#request.datacenter);
    // It has no answer because its row is locked for a moment.
    if (result === undefined) throw new OutcomeUnknownError();
    return result;
  }

  /** Why it was never sent; undefined if it may have been. */
  unreachable(): UnreachableError | undefined {
    return this.#deps.wire.unreachableSince(this.#beganAtMs);
  }

  /**
   * Retries until it is answered, or until a grant of the attempt has surely run out. Also without
   * a connection: the call waits for one, and is sent then, even if its caller has stopped waiting.
   */
  giveUp(): void {
    const { machine, wire, background } = this.#deps;
    const ttlMs = this.#request.ttlMs ?? serviceLadder(LIMITS.ttlMsMax).ttlMs;
    const untilMs = machine.clock.nowMs() + this.#waitMs + ttlMs;
    const { signal: isClosed } = background;
    const bounds = { untilMs, tryMs: GIVE_UP_TRY_MS, signal: isClosed, mayPass: mayPassInTime };
    background.add(
      outsideOfWork(() =>
        untilAnswered(machine, bounds, (ending) => wire.giveUp(this.#request, ending)),
      ),
    );
  }
}
