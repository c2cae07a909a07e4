/**
 * How a grant is requested: one attempt has one idempotency key, and is sent again with it when its
 * answer was lost, so that it is granted at most once. A caller that gives up makes sure, in the
 * background, that the attempt holds nothing.
 *
 * An attempt that waits in line confirms its grant: it renews it before its caller gets it. Until then
 * the grant is a short one, so that a lost answer costs the callers behind it a second and not a TTL.
 */
import { LIMITS, serviceLadder, UNCONFIRMED_LADDER } from '@leasehold/keys-core';
import type { AcquireAnswer, LeaseRenewResult, WaitingAnswer } from '@leasehold/keys-core/leases';
import { outsideOfWork } from '../context/work-context.ts';
import type { Machine } from '../machine.ts';
import type { Ending } from '../signals.ts';
import {
  callErrorOf,
  LeaseholdCallError,
  OutcomeUnknownError,
  type UnreachableError,
} from '../transport/errors.ts';
import {
  callWithin,
  mayPassInTime,
  pauseBeforeRetry,
  triedForMs,
  untilAnswered,
  type Background,
} from './calls.ts';
import type { AcquireRequest, LeaseWire } from './lease-wire.ts';
import { heldByOf, type HeldBy } from './lease.ts';

/** How often a place in line is taken for a grant that is to be confirmed. */
const CONFIRMING_TRIES_MAX = 3;
/** How long one try may take beyond the time in line. */
export const TRY_MS = 5_000;
/** How long one call of a longer wait takes: a connection that has died unseen costs no more than this. */
const CALL_MS = 20_000;
/** How long the first one does, for a caller that wants to know what it waits for. */
const FIRST_CALL_MS = 500;
const GIVE_UP_TRY_MS = 2_000;
/** How long one try to confirm may take: a few are made in the short first term of the grant. */
const CONFIRM_TRY_MS = 250;
/** How long one asks by whom its grant was superseded. */
const SUPERSEDED_TRY_MS = 1_000;

/** What a caller in line waits for: who holds it, or is before it, and the freeze that it waits out. */
export interface WaitingFor extends HeldBy {
  /** Its place in line, from 1. */
  readonly place: number;
  readonly frozen: { readonly until: string; readonly reason: string } | null;
}

type OnWaiting = (waiting: WaitingFor) => void;

/** How a caller waits in line; `supersede` and `onWaiting` are of environments. */
interface LineWait extends Pick<AcquireRequest, 'supersede'> {
  readonly onWaiting?: OnWaiting | undefined;
  readonly endsAtMs: number;
  readonly signal: AbortSignal | undefined;
}

/**
 * Asks, and waits in line until `endsAtMs`. A place in line is lost with its connection, or with a grant that was
 * confirmed too late; then a new one is taken. After a few losses it is taken without confirming: the network may be
 * too slow. A request for an environment names the one before, so that it is refused if that was superseded meanwhile.
 * `newRequest` makes a request with a key of its own. @throws see `acquireGrant`.
 */
export async function waitInLine(
  deps: AcquireDeps,
  newRequest: () => AcquireRequest,
  { endsAtMs, signal, supersede, onWaiting }: LineWait,
): Promise<Acquired> {
  const { machine } = deps;
  let again: string | undefined;
  for (let lossCount = 1; ; lossCount += 1) {
    const leftMs = endsAtMs - machine.clock.nowMs();
    // Without a wait it could not name the one before.
    const waitMs = Math.max(again === undefined ? 0 : 1, leftMs);
    signal?.throwIfAborted();
    const request = newRequest();
    try {
      const confirms = waitMs > 0 && lossCount <= CONFIRMING_TRIES_MAX;
      // A place that is taken again supersedes nobody: those who wait then may have come later.
      const superseding = lossCount === 1 ? supersede : undefined;
      const asked = { ...request, confirms, supersede: superseding, again };
      return await acquireGrant(deps, asked, { waitMs, signal, onWaiting });
    } catch (error) {
      const isPlaceLost =
        error instanceof LeaseholdCallError && error.code === 'lease.wait_cancelled';
      if (!isPlaceLost || leftMs <= 0) throw error;
      if (request.action !== undefined) again = request.idempotencyKey;
    }
    await pauseBeforeRetry(machine, lossCount, signal);
  }
}

export interface AcquireDeps {
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
  readonly onWaiting?: OnWaiting | undefined;
  /** A first try that was made already. */
  readonly failed?: FailedTry | undefined;
}

interface FailedTry {
  readonly error: unknown;
  readonly sentAtMs: number;
}

/** An answer, and when the call was sent that its deadlines are from. */
export interface Acquired {
  readonly answer: Exclude<AcquireAnswer, WaitingAnswer>;
  readonly sentAtMs: number;
}

type Granted = Extract<AcquireAnswer, { outcome: 'granted' }>;

/**
 * @throws {UnreachableError} nothing was sent; {@link OutcomeUnknownError} no answer came in time, and
 * the attempt is being given up; the reason of the signal, likewise; `lease.wait_cancelled` when its
 * place in line is gone, or its grant was not confirmed in time; `lease.not_held` when the grant was revoked before;
 * or the error that was answered.
 */
export async function acquireGrant(
  deps: AcquireDeps,
  request: AcquireRequest,
  { signal, ...bounds }: AcquireBounds,
): Promise<Acquired> {
  const attempt = new Attempt(deps, request, bounds);
  try {
    const acquired = await attempt.carryOut(signal);
    const { answer } = acquired;
    const isConfirmed = request.confirms !== true || !isShort(deps.machine, acquired);
    if (answer.outcome === 'held' || isConfirmed) return acquired;
    return await attempt.confirm(answer, signal);
  } catch (error) {
    // An earlier try may have arrived, even if the last one did not, and a place in line keeps others back.
    if (signal?.aborted === true || mayPassInTime(error) || attempt.isInLine) attempt.giveUp();
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
  readonly #failed: FailedTry | undefined;
  readonly #onWaiting: OnWaiting | undefined;
  readonly #beganAtMs: number;
  #isInLine = false;

  constructor(
    deps: AcquireDeps,
    request: AcquireRequest,
    { waitMs, failed, onWaiting }: Omit<AcquireBounds, 'signal'>,
  ) {
    this.#onWaiting = onWaiting;
    this.#deps = deps;
    this.#request = request;
    this.#waitMs = waitMs;
    this.#failed = failed;
    this.#beganAtMs = failed?.sentAtMs ?? deps.machine.clock.nowMs();
  }

  /** Whether its last answer was that it has a place in line. */
  get isInLine(): boolean {
    return this.#isInLine;
  }

  async carryOut(signal: AbortSignal | undefined): Promise<Acquired> {
    const { machine, answerMs } = this.#deps;
    const tryMs = Math.min(TRY_MS, answerMs);
    let failureCount = 0;
    let waitingCount = 0;
    if (this.#failed !== undefined) {
      await this.#pause((failureCount += 1), this.#failed.error, signal);
    }
    for (;;) {
      const sentAtMs = machine.clock.nowMs();
      const leftMs = this.#waitMs - (sentAtMs - this.#beganAtMs);
      // One that may wait is to the end sent as one that does: without a wait it would be another request.
      const lineMs = Math.max(this.#waitMs > 0 ? 1 : 0, leftMs);
      const callMs = this.#callMs(lineMs, waitingCount);
      const ms = Math.min(lineMs, callMs ?? lineMs) + tryMs;
      let answer: AcquireAnswer;
      try {
        answer = await callWithin(machine, { ms, signal }, (ending) =>
          outsideOfWork(() => this.#deps.wire.acquire(this.#request, lineMs, ending, callMs)),
        );
      } catch (error) {
        await this.#pause((failureCount += 1), error, signal);
        continue;
      }
      this.#isInLine = answer.outcome === 'waiting';
      if (answer.outcome === 'held' && waitingCount > 0) {
        // The controller knows of the last call alone.
        const waitedMs = Math.round(machine.clock.nowMs() - this.#beganAtMs);
        return { answer: { ...answer, waitedMs }, sentAtMs };
      }
      if (answer.outcome !== 'waiting') return { answer, sentAtMs };
      waitingCount += 1;
      failureCount = 0;
      const { place, frozen } = answer;
      this.#onWaiting?.({ ...heldByOf(answer), place, frozen });
    }
  }

  /** How long the next call takes; undefined if it waits to the end. What a controller of older versions knows is one. */
  #callMs(lineMs: number, waitingCount: number): number | undefined {
    if (waitingCount === 0 && this.#onWaiting !== undefined && lineMs > 0) return FIRST_CALL_MS;
    const isLong = lineMs > LIMITS.waitMsMax || this.#request.action !== undefined;
    return isLong && lineMs > 0 ? CALL_MS : undefined;
  }

  /** Waits before the next try. @throws the error of the one before, if there is to be none. */
  async #pause(
    failureCount: number,
    error: unknown,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { machine, answerMs, isHopeless } = this.#deps;
    const tookMs = machine.clock.nowMs() - this.#beganAtMs;
    const isOver = tookMs >= triedForMs(error, { waitMs: this.#waitMs, answerMs });
    if (signal?.aborted === true || isOver) throw error;
    if (isHopeless?.(this.#beganAtMs) === true) throw error;
    await pauseBeforeRetry(machine, failureCount, signal);
  }

  /** Renews a grant for the first time. It is handed out only then, with deadlines for the whole TTL. */
  async confirm(answer: Granted, signal: AbortSignal | undefined): Promise<Acquired> {
    const { machine, background } = this.#deps;
    const { leaseId, deadlines } = answer.lease;
    const bounds = {
      untilMs: deadlines.loseAtMs,
      tryMs: CONFIRM_TRY_MS,
      signal: signal ?? background.signal,
      mayPass: mayPassInTime,
    };
    let sentAtMs = 0;
    const result = await untilAnswered(machine, bounds, async (ending) => {
      sentAtMs = machine.clock.nowMs();
      return outsideOfWork(() => this.#renewOnce(answer.lease, ending));
    }).catch((error: unknown) => {
      if (!mayPassInTime(error)) throw error;
      // The renewal may have arrived: then the grant has its whole TTL, and nobody wants it any more.
      this.giveUp();
      throw new LeaseholdCallError('lease.wait_cancelled', { cause: error });
    });
    if (result.outcome === 'refused') {
      const { reason } = result;
      // What was taken from it is not waited for again: a newer request may have superseded it.
      const isTaken = reason === 'renewal_blocked' || reason === 'revoked';
      const superseded = isTaken ? await this.#superseded(bounds.signal) : undefined;
      // Of several leases the others may have been renewed, for their whole TTL.
      this.giveUp();
      throw (
        superseded ??
        new LeaseholdCallError(isTaken ? 'lease.not_held' : 'lease.wait_cancelled', {
          details: { leaseId, reason },
        })
      );
    }
    const lease = { ...answer.lease, deadlines: result.deadlines };
    return { answer: { ...answer, lease }, sentAtMs };
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

  /** Who has superseded its grant: the same request, sent again, is refused with that. Undefined if nobody is known to. */
  async #superseded(signal: AbortSignal): Promise<LeaseholdCallError | undefined> {
    const { machine, wire } = this.#deps;
    if (this.#request.action === undefined) return undefined;
    try {
      await callWithin(machine, { ms: SUPERSEDED_TRY_MS, signal }, (ending) =>
        outsideOfWork(() => wire.acquire(this.#request, 1, ending)),
      );
      return undefined;
    } catch (thrown) {
      const error = callErrorOf(thrown);
      const isSuperseded =
        error instanceof LeaseholdCallError && error.code === 'environment.superseded';
      return isSuperseded ? error : undefined;
    }
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
    // No place in line lasts longer than a call does after it was last taken.
    const untilMs = machine.clock.nowMs() + Math.min(this.#waitMs, LIMITS.waitMsMax) + ttlMs;
    const { signal: isClosed } = background;
    const bounds = { untilMs, tryMs: GIVE_UP_TRY_MS, signal: isClosed, mayPass: mayPassInTime };
    background.add(
      outsideOfWork(() =>
        untilAnswered(machine, bounds, (ending) => wire.giveUp(this.#request, ending)),
      ),
    );
  }
}
