/** Acquires a lease of either face: from the intent to the lease that is kept. */
import { serviceLadder, LIMITS } from '@leasehold/keys-core';
import type { AcquireAnswer, HeldAnswer } from '@leasehold/keys-core/leases';
import { LeaseholdCallError } from '../../transport/call-errors.ts';
import { currentContext } from '../../context/work-context.ts';
import type { Machine } from '../../machine.ts';
import { linkSignals } from '../../signals.ts';
import { pauseBeforeRetry } from '../wire/calls.ts';
import { acquireGrant, type Acquired, type AcquireDeps } from './acquire.ts';
import { HeldLease } from '../held-lease.ts';
import type { Holdings } from '../holdings.ts';
import {
  LeaseHeldError,
  LeaseSelfDeadlockError,
  LeaseWaitTimeoutError,
  scopeText,
  type HeldBy,
  type LeaseScope,
} from '../lease-errors.ts';
import type { Lease } from '../lease.ts';
import type { AcquireRequest } from '../wire/lease-wire.ts';

/** How often a place in line is taken for a grant that is to be confirmed. */
const CONFIRMING_TRIES_MAX = 3;

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

export interface LeaseTakerDeps extends AcquireDeps {
  readonly holdings: Holdings;
  /** Tells scopes of different controllers apart. */
  readonly url: string;
  /** Called before each acquire. */
  readonly beforeAcquire: () => void;
}

export class LeaseTaker {
  readonly #deps: LeaseTakerDeps;
  readonly #machine: Machine;

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
      ...[this.#deps.url, intent.datacenter ?? ''],
      ...[intent.scope.face, scopeText(intent.scope)],
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
   * Most leases are free when they are requested. So a caller that may wait first asks in one call
   * with others, and only if it is refused waits in line, with an attempt of its own.
   */
  async #ask(intent: AcquireIntent, signal: AbortSignal | undefined): Promise<Acquired> {
    const endsAtMs = this.#machine.clock.nowMs() + intent.waitMs;
    const first = await acquireGrant(this.#deps, this.#requestOf(intent), { waitMs: 0, signal });
    const waitMs = endsAtMs - this.#machine.clock.nowMs();
    if (first.answer.outcome === 'granted' || waitMs <= 0) return first;
    return this.#waitInLine(intent, endsAtMs, signal);
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
      ...{ ttlMs, holder, action, comment, metadata, datacenter },
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
