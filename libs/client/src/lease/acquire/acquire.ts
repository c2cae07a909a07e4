/**
 * How a grant is requested: one attempt has one idempotency key, and is sent again with it when its
 * answer was lost, so that it is granted at most once. A caller that gives up makes sure, in the
 * background, that the attempt holds nothing.
 *
 * An attempt that waits in line confirms its grant: it renews it before its caller gets it. Until then
 * the grant is a short one, so that a lost answer costs the callers behind it a second and not a TTL.
 */
import { LIMITS, serviceLadder } from '@leasehold/keys-core';
import type { AcquireAnswer, LeaseRenewResult } from '@leasehold/keys-core/leases';
import {
  LeaseholdCallError,
  OutcomeUnknownError,
  type UnreachableError,
} from '../../transport/call-errors.ts';
import { outsideOfWork } from '../../context/work-context.ts';
import type { Machine } from '../../machine.ts';
import type { Ending } from '../../signals.ts';
import type { Background } from '../background.ts';
import {
  callWithin,
  isPassing,
  mayPassInTime,
  pauseBeforeRetry,
  untilAnswered,
} from '../wire/calls.ts';
import type { AcquireRequest, LeaseWire } from '../wire/lease-wire.ts';

/** How long one try may take beyond the time in line. */
const TRY_MS = 5_000;
const GIVE_UP_TRY_MS = 2_000;
/** How long one try to confirm may take: a few are made in the short first term of the grant. */
const CONFIRM_TRY_MS = 250;

export interface AcquireDeps {
  readonly machine: Machine;
  readonly wire: LeaseWire;
  readonly background: Background;
  /** How long to wait for an answer beyond the time in line, retries included. Milliseconds. */
  readonly answerMs: number;
  /** Whether to try no more, for an acquire that began at that moment. */
  readonly isHopeless?: ((momentMs: number) => boolean) | undefined;
}

export interface AcquireBounds {
  readonly waitMs: number;
  readonly signal: AbortSignal | undefined;
}

/** An answer, and how long the call took that its deadlines are from. */
export interface Acquired {
  readonly answer: AcquireAnswer;
  readonly tookMs: number;
}

type Granted = Extract<AcquireAnswer, { outcome: 'granted' }>;

/**
 * @throws {UnreachableError} nothing was sent; {@link OutcomeUnknownError} no answer came in time, and
 * the attempt is being given up; the reason of the signal, likewise; `lease.wait_cancelled` when its
 * place in line is gone, or its grant was not confirmed in time; or the error that was answered.
 */
export async function acquireGrant(
  deps: AcquireDeps,
  request: AcquireRequest,
  { waitMs, signal }: AcquireBounds,
): Promise<Acquired> {
  signal?.throwIfAborted();
  const attempt = new Attempt(deps, request, waitMs);
  try {
    const acquired = await attempt.carryOut(signal);
    const { answer } = acquired;
    if (answer.outcome === 'held' || request.confirms !== true) return acquired;
    return await attempt.confirm(answer, signal);
  } catch (error) {
    // An earlier try may have arrived, even if the last one did not.
    if (signal?.aborted === true || mayPassInTime(error)) attempt.giveUp();
    const isUnknown = error instanceof OutcomeUnknownError;
    throw (isUnknown ? attempt.unreachable() : undefined) ?? error;
  }
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
