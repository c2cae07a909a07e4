/** Acquires a lease of either face: from the intent to the lease that is kept. */
import type { HeldAnswer } from '@leasehold/keys-core/leases';
import { onAbort } from '@leasehold/service-kit/signals';
import { currentContext, outsideOfWork, type WorkContext } from '../context/work-context.ts';
import type { Machine } from '../machine.ts';
import { linkSignals, type LinkedSignal } from '../signals.ts';
import {
  callErrorOf,
  DatacenterUnreachableError,
  LeaseholdCallError,
  OutcomeUnknownError,
} from '../transport/errors.ts';
import {
  acquireGrant,
  TRY_MS,
  waitInLine,
  type AcquireDeps,
  type Acquired,
  type WaitingFor,
} from './attempt.ts';
import { isHoldOff, Tries } from './calls.ts';
import { HeldLease, scopeIdOf } from './held-lease.ts';
import type { Holdings } from './holdings.ts';
import type { AcquireRequest } from './lease-wire.ts';
import {
  heldByOf,
  LeaseHeldError,
  LeaseSelfDeadlockError,
  LeaseWaitTimeoutError,
  type HeldBy,
  type Lease,
  type LeaseScope,
} from './lease.ts';

/** For so long one that was sent alone and has no answer may be one of many: then the next are sent together. */
const ALONE_MS = 20;

/** What a caller wants to acquire. */
export interface AcquireIntent extends Omit<
  AcquireRequest,
  'idempotencyKey' | 'namespace' | 'key' | 'confirms' | 'again'
> {
  readonly scope: LeaseScope;
  readonly waitMs: number;
  readonly renews: boolean;
  readonly signal: AbortSignal | undefined;
  /** Called with what stands in its way, again and again while it waits. */
  readonly onWaiting?: ((waiting: WaitingFor) => void) | undefined;
}

/**
 * The result of an attempt without waiting. `await using` releases the lease if one was granted.
 */
export type LeaseAttempt = AsyncDisposable &
  (
    { readonly outcome: 'granted'; readonly lease: Lease } | ({ readonly outcome: 'held' } & HeldBy)
  );

export interface LeaseTakerDeps extends AcquireDeps {
  readonly holdings: Holdings;
  /** Tells scopes of different controllers apart. */
  readonly url: string;
  /** Called before each acquire. */
  readonly beforeAcquire: () => void;
}

/** What becomes of an answer that somebody else holds the lease. */
type Refuse<T> = (intent: AcquireIntent, answer: HeldAnswer) => T;

export class LeaseTaker {
  /** What acquires are made of: those of several leases use the same. */
  readonly deps: LeaseTakerDeps;
  readonly #machine: Machine;
  /** Those who ask together with others. */
  readonly #tries: Tries;
  /** For a caller that gave no signal. */
  readonly #unlinked: LinkedSignal;
  /** How many ask together with others now. */
  #togetherCount = 0;
  /** Since when the latest asks alone. */
  #aloneSinceMs = -Infinity;

  constructor(deps: LeaseTakerDeps) {
    const { machine, background } = deps;
    this.deps = deps;
    this.#machine = machine;
    this.#tries = new Tries(machine, Math.min(TRY_MS, deps.answerMs), background.closing);
    this.#unlinked = linkSignals([background.closing]);
  }

  /** @throws {LeaseHeldError}, {@link LeaseWaitTimeoutError}, {@link LeaseSelfDeadlockError}; see `acquireGrant`. */
  acquire(intent: AcquireIntent): Promise<HeldLease> {
    return this.#take(intent, throwHeld);
  }

  /** Never waits; the holder is returned as a value. @throws see `acquireGrant`. */
  async tryAcquire(intent: AcquireIntent): Promise<LeaseAttempt> {
    const taken = await this.#take(intent, heldByIn);
    return taken instanceof HeldLease
      ? {
          outcome: 'granted',
          lease: taken,
          [Symbol.asyncDispose]: () => taken[Symbol.asyncDispose](),
        }
      : { outcome: 'held', ...taken, [Symbol.asyncDispose]: () => Promise.resolve() };
  }

  /**
   * A caller that may wait asks and waits in one call. While others are asking, it first asks in one call with
   * them, because most leases are free, and only if it is refused waits in line, with an attempt of its own.
   */
  #take<T>(intent: AcquireIntent, refuse: Refuse<T>): Promise<HeldLease | T> {
    const { background, url, beforeAcquire } = this.deps;
    background.throwIfClosing();
    const outer = currentContext();
    outer?.throwIfOver();
    if (intent.waitMs > 0 && outer?.holds(scopeIdOf(url, intent)) === true) {
      throw new LeaseSelfDeadlockError(intent.scope);
    }
    beforeAcquire();
    // In a line with an order, all is said by one request. It waits for a controller that starts again, too.
    const isInOrder = intent.scope.face === 'environment';
    return intent.waitMs > 0 && (isInOrder || this.#isAlone())
      ? this.#takeAlone(intent, outer, refuse)
      : this.#takeTogether(intent, outer, refuse);
  }

  async #takeAlone<T>(
    intent: AcquireIntent,
    outer: WorkContext | undefined,
    refuse: Refuse<T>,
  ): Promise<HeldLease | T> {
    const linked = this.#linked(intent, outer);
    const sinceMs = this.#machine.clock.nowMs();
    this.#aloneSinceMs = sinceMs;
    try {
      const acquired = await waitInLine(this.deps, () => requestOf(this.#machine, intent), {
        supersede: intent.supersede,
        onWaiting: intent.onWaiting,
        endsAtMs: sinceMs + intent.waitMs,
        signal: linked.signal,
      });
      return await this.#handOut(intent, acquired, { outer, signal: linked.signal, refuse });
    } finally {
      if (this.#aloneSinceMs === sinceMs) this.#aloneSinceMs = -Infinity;
      linked[Symbol.dispose]();
    }
  }

  async #takeTogether<T>(
    intent: AcquireIntent,
    outer: WorkContext | undefined,
    refuse: Refuse<T>,
  ): Promise<HeldLease | T> {
    const { clock } = this.#machine;
    const linked = this.#linked(intent, outer);
    const { signal } = linked;
    try {
      const endsAtMs = clock.nowMs() + intent.waitMs;
      let acquired = await this.#askTogether(intent, signal);
      const isHeld = acquired?.answer.outcome === 'held' && endsAtMs > clock.nowMs();
      if (acquired === undefined || isHeld) {
        acquired = await waitInLine(this.deps, () => requestOf(this.#machine, intent), {
          supersede: intent.supersede,
          onWaiting: intent.onWaiting,
          endsAtMs,
          signal,
        });
      }
      // Not to wait for what is no promise saves most callers a turn.
      const out = this.#handOut(intent, acquired, { outer, signal, refuse });
      return out instanceof Promise ? await out : out;
    } finally {
      linked[Symbol.dispose]();
    }
  }

  /** What ends the acquire before its answer. Nobody listens to a caller that gave no signal of its own. */
  #linked({ signal }: AcquireIntent, outer: WorkContext | undefined): LinkedSignal {
    const { closing } = this.deps.background;
    return signal === undefined && outer === undefined
      ? this.#unlinked
      : linkSignals([signal, outer?.signal, closing]);
  }

  /** Undefined in a hold-off, and while its datacenter cannot be reached, for a caller that may wait in line. */
  async #askTogether(
    intent: AcquireIntent,
    signal: AbortSignal | undefined,
  ): Promise<Acquired | undefined> {
    const { wire, background } = this.deps;
    const sentAtMs = this.#machine.clock.nowMs();
    const request = requestOf(this.#machine, intent);
    signal?.throwIfAborted();
    const one = this.#tries.begin(sentAtMs);
    const isFollowed = signal !== undefined && signal !== background.closing;
    const unfollow = isFollowed ? onAbort(signal, (reason) => one.end(reason)) : undefined;
    this.#togetherCount += 1;
    try {
      const answer = await outsideOfWork(() => wire.acquire(request, 0, one));
      if (answer.outcome === 'waiting') throw new OutcomeUnknownError();
      return { answer, sentAtMs };
    } catch (error) {
      const failed = { error: one.aborted ? one.reason : callErrorOf(error), sentAtMs };
      return await acquireGrant(this.deps, request, { waitMs: 0, signal, failed }).catch(
        (again: unknown) => {
          // To wait in line is refused, too, where a hold-off lasts longer than that.
          const mayWait = again instanceof DatacenterUnreachableError || isHoldOff(again);
          if (intent.waitMs > 0 && mayWait) return undefined;
          throw again;
        },
      );
    } finally {
      this.#togetherCount -= 1;
      this.#tries.end(one);
      unfollow?.();
    }
  }

  #isAlone(): boolean {
    const nowMs = this.#machine.clock.nowMs();
    return (
      this.#togetherCount === 0 &&
      nowMs - this.#aloneSinceMs >= ALONE_MS &&
      // What a controller does not get must not take the time in line to fail.
      this.deps.wire.unreachableSince(nowMs) === undefined
    );
  }

  /** The lease, as soon as its holder may act on it. */
  #handOut<T>(
    intent: AcquireIntent,
    { answer, sentAtMs }: Acquired,
    how: {
      readonly outer: WorkContext | undefined;
      readonly signal: AbortSignal | undefined;
      readonly refuse: Refuse<T>;
    },
  ): HeldLease | T | Promise<HeldLease> {
    if (answer.outcome === 'held') return how.refuse(intent, answer);
    const { machine, holdings, url } = this.deps;
    const nowMs = machine.clock.nowMs();
    const lease = new HeldLease({
      machine,
      owner: holdings,
      url,
      intent,
      granted: answer.lease,
      sentAtMs,
      nowMs,
      outer: how.outer,
    });
    if (lease.loseAtMs - nowMs > lease.ttlMs) {
      // It belongs to another clock: no work may rely on it.
      void lease.release('failed');
      throw new LeaseholdCallError('internal.error', { message: 'A deadline beyond the TTL.' });
    }
    holdings.adopt(lease, nowMs);
    return lease.isHeld && how.signal?.aborted !== true
      ? lease
      : this.#confirmed(lease, how.signal);
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

export function requestOf(machine: Machine, intent: AcquireIntent): AcquireRequest {
  return {
    namespace: intent.scope.namespace,
    key: intent.scope.key,
    ttlMs: intent.ttlMs,
    holder: intent.holder,
    mode: intent.mode,
    action: intent.action,
    comment: intent.comment,
    override: intent.override,
    order: intent.order,
    metadata: intent.metadata,
    datacenter: intent.datacenter,
    idempotencyKey: machine.uuid(),
  };
}

function throwHeld(intent: AcquireIntent, answer: HeldAnswer): never {
  const heldBy = heldByOf(answer);
  throw intent.waitMs > 0
    ? new LeaseWaitTimeoutError(intent.scope, heldBy)
    : new LeaseHeldError(intent.scope, heldBy);
}

function heldByIn(_intent: AcquireIntent, answer: HeldAnswer): HeldBy {
  return heldByOf(answer);
}
