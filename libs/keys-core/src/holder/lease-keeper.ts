/**
 * The holder's side of a grant: when to renew it, when to stop.
 *
 * The keeper is a state machine without a clock, a timer or a socket. Its owner calls
 * {@link LeaseKeeper.tick} with a reading of its own clock at least every 100 ms, carries out the
 * effects that come back, and passes it every answer to a renewal, in any order.
 *
 *              answer `renewed`: the rungs move later
 *               ┌────────────────┐
 *               ▼                │
 *   held ──renewAt──▶ renewing ──┘
 *     │                  │
 *     │                  ├─ softTerminateAt, or a refusal ─▶ stopping ─ hardTerminateAt ─▶ over
 *     └── (a gap: the machine slept) ──▶ renewing             (gently)                     (killed)
 *
 * What it promises, as long as its owner calls it and its clock's rate is within the ladder's
 * tolerance:
 *
 * 1. **Never past hard.** At the first tick at or after `hardTerminateAt` it returns `hard_terminate`,
 *    and from `softTerminateAt` on {@link LeaseKeeper.mayAct} is false. Both are judged by the
 *    reading passed in, so a holder that was suspended learns of it before it does anything else.
 * 2. **Soft before hard.** `hard_terminate` is never returned without `soft_terminate` before it;
 *    each is returned once.
 * 3. **Stopping is final.** An answer that arrives after stopping has begun changes nothing.
 * 4. **Deadlines only move later**, and only by the answer to the newest request that was answered:
 *    a late or repeated reply moves nothing. A deadline further ahead than the ladder is long
 *    belongs to another clock and is dropped.
 * 5. **At least three tries** begin between `renewAt` and `softTerminateAt`. A try has a timeout
 *    under a third of that window; when it runs out the next try begins, and the answer to the
 *    earlier one still counts.
 * 6. **Nothing is done on a promise alone.** Deadlines that were computed for a holder which had not
 *    asked are provisional: a renewal is due at once, and until it is answered `mayAct` is false.
 *    The first answer replaces provisional deadlines, even by earlier ones. The same holds after a
 *    gap: the holder asks again before it acts.
 *
 * A refusal stops the holder at once. If the grant is already over, hard follows soft immediately;
 * otherwise the holder has the time from soft to hard to say goodbye in, and no more.
 */
import type { Deadlines, Ladder } from '../kernel/ladder.ts';
import type { RefusalReason } from '../kernel/lease.ts';

/** Why the key itself made a holder stop. */
export type KeyLossReason = 'key_expired' | 'renewal_refused' | 'revoked';

/** What the owner of a keeper must do now. */
export type KeeperEffect =
  | { readonly kind: 'renew'; readonly requestId: number }
  | { readonly kind: 'soft_terminate'; readonly reason: KeyLossReason }
  | { readonly kind: 'hard_terminate'; readonly reason: KeyLossReason };

export interface LeaseKeeperOptions {
  readonly ladder: Ladder;
  readonly deadlines: Deadlines;
  /** Whether the deadlines came with an answer to this holder, or were computed without a request from it. */
  readonly isConfirmed: boolean;
  /** The reading of the holder's clock at which the keeper begins. */
  readonly nowMs: number;
  /**
   * For an owner of many keepers, which then need no tick of their own: it ticks a keeper when that
   * is due, and looks for gaps itself. See {@link LeaseKeeper.dueAtMs} and {@link LeaseKeeper.slept}.
   */
  readonly pulse?: Pulse | undefined;
  /** A number in `[0, 1)`: spreads the retries of many holders. */
  readonly random: () => number;
}

/** What most readings return. */
const NOTHING: readonly KeeperEffect[] = [];

/** When the owner of many keepers has last looked at its clock. */
export interface Pulse {
  readonly atMs: number;
}

/** A tick that comes this much later than the one before it is a gap: ten ticks were missed. */
export const GAP_MS = 1_000;

/** Under a third, so that a third try begins inside the window even if each is a tick late. */
const TRY_TIMEOUT_SHARE = 0.3;

/** The first wait after a try that failed at once; short, because most of these are reconnects. */
const RETRY_FIRST_MS = 50;

/** Keeps one grant for its holder. See the protocol at the top of this file. */
export class LeaseKeeper {
  readonly #ladder: Ladder;
  readonly #random: () => number;
  readonly #tryTimeoutMs: number;
  #deadlines: Deadlines;
  /** The newest reading, by this keeper or by its owner. */
  #pulse: Pulse;
  readonly #isOnItsOwn: boolean;
  #lastRequestId = 0;
  #newestRenewedId = 0;
  /** The holder may act once a request with this id or a later one was answered `renewed`. */
  #confirmingId: number;
  #nextTryAtMs: number | undefined;
  #failureCount = 0;
  #lossReason: KeyLossReason | undefined;
  #isHardSaid = false;

  constructor(options: LeaseKeeperOptions) {
    this.#ladder = options.ladder;
    this.#random = options.random;
    this.#deadlines = options.deadlines;
    this.#confirmingId = options.isConfirmed ? 0 : 1;
    this.#isOnItsOwn = options.pulse === undefined;
    this.#pulse = options.pulse ?? { atMs: options.nowMs };
    const windowMs = options.ladder.softAfterMs - options.ladder.renewAfterMs;
    this.#tryTimeoutMs = windowMs * TRY_TIMEOUT_SHARE;
  }

  /** The deadlines that hold now, in the holder's clock. */
  get deadlines(): Deadlines {
    return this.#deadlines;
  }

  /** Whether the key itself has made the holder stop; never false again once true. */
  get isStopping(): boolean {
    return this.#lossReason !== undefined;
  }

  /** When {@link LeaseKeeper.tick} has the next effect, unless an answer changes that. */
  get dueAtMs(): number {
    const { renewAtMs, softTerminateAtMs, hardTerminateAtMs } = this.#deadlines;
    if (this.isStopping) return this.#isHardSaid ? Infinity : hardTerminateAtMs;
    const tryAtMs = this.#nextTryAtMs ?? (this.isUnconfirmed ? -Infinity : renewAtMs);
    return Math.min(tryAtMs, softTerminateAtMs);
  }

  /** Whether the holder must wait for an answer before it may act: at first, and after a gap. */
  get isUnconfirmed(): boolean {
    return this.#newestRenewedId < this.#confirmingId;
  }

  /** Whether the holder may act as such at this reading of its clock. */
  mayAct(nowMs: number): boolean {
    return (
      !this.isStopping &&
      !this.isUnconfirmed &&
      !this.#isGap(nowMs) &&
      nowMs < this.#deadlines.softTerminateAtMs
    );
  }

  /** What is due at this reading. Each stop is returned once; a renewal once for each try. */
  tick(nowMs: number): readonly KeeperEffect[] {
    const stops = this.#observe(nowMs);
    if (this.isStopping) return stops;

    return this.#isTryDue(nowMs) ? [this.#beginTry(nowMs)] : NOTHING;
  }

  /** The answer `renewed` to one request, with deadlines counted from when that request was sent. */
  renewed(requestId: number, deadlines: Deadlines, nowMs: number): readonly KeeperEffect[] {
    const stops = this.#observe(nowMs);
    if (this.isStopping) return stops;
    if (requestId > this.#lastRequestId || requestId <= this.#newestRenewedId) return NOTHING;
    if (!this.#isPlausible(deadlines, nowMs)) return NOTHING;

    const isProvisional = this.#confirmingId > 0 && this.#newestRenewedId === 0;
    const isLater = deadlines.hardTerminateAtMs > this.#deadlines.hardTerminateAtMs;
    if (isProvisional || isLater) this.#deadlines = deadlines;
    this.#newestRenewedId = requestId;
    this.#failureCount = 0;
    if (!this.isUnconfirmed) this.#nextTryAtMs = undefined;
    // The answer may have arrived after its own deadlines: check them at once.
    return this.#stopsDue(nowMs);
  }

  /** The answer `refused` to one request. Stops the holder, unless a newer answer allows it to continue. */
  refused(requestId: number, reason: RefusalReason, nowMs: number): readonly KeeperEffect[] {
    const stops = this.#observe(nowMs);
    if (this.isStopping) return stops;
    // Blocking can be undone, so a newer `renewed` outweighs it. The end of a grant cannot.
    if (reason === 'renewal_blocked' && requestId < this.#newestRenewedId) return NOTHING;

    const hardTerminateAtMs = isOver(reason) ? nowMs : this.#goodbyeEndsAt(nowMs);
    return [...this.#beginStop(lossReasonOf(reason), hardTerminateAtMs), ...this.#stopsDue(nowMs)];
  }

  /** One request failed without an answer: the next try follows after a short wait. */
  failed(requestId: number, nowMs: number): void {
    if (requestId !== this.#lastRequestId || this.#nextTryAtMs === undefined) return;
    this.#failureCount += 1;
    const waitMs = backoffMs(this.#failureCount, {
      firstMs: Math.min(RETRY_FIRST_MS, this.#tryTimeoutMs),
      maxMs: this.#tryTimeoutMs,
      random: this.#random,
    });
    // Never later than the timeout of the try that failed, which is what bounds the tries.
    this.#nextTryAtMs = Math.min(this.#nextTryAtMs, nowMs + waitMs);
  }

  /** There was a gap: the holder asks again before it acts. Called by the owner of a {@link Pulse}. */
  slept(): void {
    this.#confirmingId = this.#lastRequestId + 1;
    this.#nextTryAtMs = undefined;
  }

  /** Notes a reading: a gap before it, and the stops that are due at it. */
  #observe(nowMs: number): readonly KeeperEffect[] {
    if (this.#isOnItsOwn) {
      if (this.#isGap(nowMs)) this.slept();
      if (nowMs > this.#pulse.atMs) this.#pulse = { atMs: nowMs };
    }
    return this.#stopsDue(nowMs);
  }

  #isGap(nowMs: number): boolean {
    return nowMs - this.#pulse.atMs > GAP_MS;
  }

  #isTryDue(nowMs: number): boolean {
    if (this.#nextTryAtMs !== undefined) return nowMs >= this.#nextTryAtMs;
    return this.isUnconfirmed || nowMs >= this.#deadlines.renewAtMs;
  }

  #beginTry(nowMs: number): KeeperEffect {
    this.#lastRequestId += 1;
    this.#nextTryAtMs = nowMs + this.#tryTimeoutMs;
    return { kind: 'renew', requestId: this.#lastRequestId };
  }

  #isPlausible(deadlines: Deadlines, nowMs: number): boolean {
    const { renewAtMs, softTerminateAtMs, hardTerminateAtMs } = deadlines;
    return (
      renewAtMs < softTerminateAtMs &&
      softTerminateAtMs < hardTerminateAtMs &&
      hardTerminateAtMs - nowMs <= this.#ladder.hardAfterMs
    );
  }

  /** The end of the time from soft to hard, if soft is now; never later than hard already was. */
  #goodbyeEndsAt(nowMs: number): number {
    const goodbyeMs = this.#ladder.hardAfterMs - this.#ladder.softAfterMs;
    return Math.min(this.#deadlines.hardTerminateAtMs, nowMs + goodbyeMs);
  }

  #beginStop(reason: KeyLossReason, hardTerminateAtMs: number): KeeperEffect[] {
    this.#lossReason = reason;
    this.#deadlines = { ...this.#deadlines, hardTerminateAtMs };
    return [{ kind: 'soft_terminate', reason }];
  }

  #stopsDue(nowMs: number): readonly KeeperEffect[] {
    const { softTerminateAtMs, hardTerminateAtMs } = this.#deadlines;
    // Hard is after soft: at most readings neither is due.
    if (this.#lossReason === undefined && nowMs < softTerminateAtMs) return NOTHING;
    const effects: KeeperEffect[] = [];
    if (this.#lossReason === undefined && nowMs >= softTerminateAtMs) {
      effects.push(...this.#beginStop('key_expired', hardTerminateAtMs));
    }
    if (this.#lossReason !== undefined && !this.#isHardSaid && nowMs >= hardTerminateAtMs) {
      this.#isHardSaid = true;
      effects.push({ kind: 'hard_terminate', reason: this.#lossReason });
    }
    return effects;
  }
}

/**
 * Whether deadlines that came with a grant can belong to this clock: soft is ahead, and hard no
 * further than the whole ladder is long. They were counted from a heartbeat by the database's
 * clock, so they are allowed the room that the ladder keeps for clock rates; see {@link Ladder}.
 */
export function isFirstGrantPlausible(
  deadlines: Deadlines,
  ladder: Ladder,
  nowMs: number,
): boolean {
  return deadlines.softTerminateAtMs > nowMs && deadlines.hardTerminateAtMs - nowMs <= ladder.ttlMs;
}

/** If somebody else may hold the grant by now, there is no time for goodbyes. */
function isOver(reason: RefusalReason): boolean {
  return reason === 'expired' || reason === 'superseded';
}

function lossReasonOf(reason: RefusalReason): KeyLossReason {
  if (isOver(reason)) return 'key_expired';
  return reason === 'revoked' ? 'revoked' : 'renewal_refused';
}

/**
 * How long to wait before the next try: doubling from `firstMs` to at most `maxMs`, each wait
 * shortened at random by up to half, so that callers that failed together do not retry together.
 */
interface BackoffOptions {
  readonly firstMs: number;
  readonly maxMs: number;
  /** A number in `[0, 1)`. */
  readonly random: () => number;
}

/** The wait after the `failureCount`-th failure in a row, which counts from 1. */
export function backoffMs(failureCount: number, options: BackoffOptions): number {
  const { firstMs, maxMs, random } = options;
  // 2^30 first waits are longer than any bound in use; beyond that the power would be infinite.
  const doublings = Math.min(Math.max(failureCount - 1, 0), 30);
  const fullMs = Math.min(firstMs * 2 ** doublings, maxMs);
  return fullMs * (1 - random() / 2);
}
