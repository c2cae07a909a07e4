/**
 * How a grant is asked for: one attempt with one idempotency key, sent again with the same key when
 * its answer was lost, so that it is granted once at most. Whoever gives up sees to it, in the
 * background, that the attempt holds nothing.
 */
import { LIMITS, serviceLadder } from '@leasehold/keys-core';
import type { AcquireAnswer } from '@leasehold/keys-core/leases';
import { OutcomeUnknownError, UnreachableError } from '../call-errors.ts';
import { outsideOfWork } from '../context/work-context.ts';
import type { Machine } from '../machine.ts';
import type { Background } from './background.ts';
import { callWithin, isPassing, mayPassInTime, pauseBeforeRetry, untilAnswered } from './calls.ts';
import type { AcquireRequest, LeaseWire } from './lease-wire.ts';

/** How long one try may take beyond the time in line. */
const TRY_MS = 5_000;
const GIVE_UP_TRY_MS = 2_000;

export interface AcquireDeps {
  readonly machine: Machine;
  readonly wire: LeaseWire;
  readonly background: Background;
  /** How long an answer is waited for beyond the time in line, tries included. Milliseconds. */
  readonly answerMs: number;
}

export interface AcquireBounds {
  readonly waitMs: number;
  readonly signal: AbortSignal | undefined;
}

/** An answer, and for how long its call was under way. */
export interface Acquired {
  readonly answer: AcquireAnswer;
  readonly tookMs: number;
}

/**
 * @throws {UnreachableError} nothing was sent; {@link OutcomeUnknownError} no answer came in time, and
 * the attempt is being given up; the reason of the signal, likewise; else what was answered.
 */
export async function acquireGrant(
  deps: AcquireDeps,
  request: AcquireRequest,
  { waitMs, signal }: AcquireBounds,
): Promise<Acquired> {
  signal?.throwIfAborted();
  const attempt = new Attempt(deps, request, waitMs);
  try {
    return await attempt.carryOut(signal);
  } catch (error) {
    // An earlier try may have got there, when the last one did not.
    if (signal?.aborted === true || mayPassInTime(error)) attempt.giveUp();
    throw error instanceof OutcomeUnknownError && attempt.wasNeverSent()
      ? new UnreachableError({ cause: error })
      : error;
  }
}

class Attempt {
  readonly #deps: AcquireDeps;
  readonly #request: AcquireRequest;
  readonly #waitMs: number;
  readonly #beganAtMs: number;
  #mayHaveArrived = false;

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
        const answer = await callWithin(machine, { ms: lineMs + tryMs, signal }, (trySignal) =>
          outsideOfWork(() => this.#deps.wire.acquire(this.#request, lineMs, trySignal)),
        );
        return { answer, tookMs: machine.clock.nowMs() - sentAtMs };
      } catch (error) {
        this.#mayHaveArrived ||= !(error instanceof UnreachableError);
        const tookMs = machine.clock.nowMs() - this.#beganAtMs;
        if (signal?.aborted === true || !isPassing(error) || tookMs >= this.#waitMs + answerMs) {
          throw error;
        }
      }
      await pauseBeforeRetry(machine, failureCount, signal);
    }
  }

  wasNeverSent(): boolean {
    return !this.#mayHaveArrived || !this.#deps.wire.wasReachableSince(this.#beganAtMs);
  }

  /**
   * Until it is answered, or what the attempt may have been granted has surely run out. Also when there
   * was no connection: the call waits for one, and is sent then, whoever has stopped waiting for it.
   */
  giveUp(): void {
    const { machine, wire, background } = this.#deps;
    const ttlMs = this.#request.ttlMs ?? serviceLadder(LIMITS.ttlMsMax).ttlMs;
    const untilMs = machine.clock.nowMs() + this.#waitMs + ttlMs;
    const { signal: isClosed } = background;
    const bounds = { untilMs, tryMs: GIVE_UP_TRY_MS, signal: isClosed, mayPass: mayPassInTime };
    background.add(
      outsideOfWork(() =>
        untilAnswered(machine, bounds, (signal) => wire.giveUp(this.#request, signal)),
      ),
    );
  }
}
