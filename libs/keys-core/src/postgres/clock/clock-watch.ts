/**
 * Watches the database's clock from outside. It is the one wall clock that matters, so it must be
 * slewed and never stepped: a step forward would expire every grant at once while its holders are
 * in their first seconds.
 *
 * Each statement gives an interval in which the difference between the database's clock and this
 * machine's monotonic clock lies: the database read its clock after the statement was sent and
 * before its answer came. The intervals are intersected, so that one slow answer does not widen them.
 * A reading that is outside by more than {@link JUMP_MS} is a jump, whatever the network did.
 *
 * A watch lasts from its first reading until the clock jumps. The expiry of a grant is believed when
 * the clock was watched since the grant was last renewed, or for as long as the grant's own TTL, or
 * by another process up to its expiry. See ADR 19.
 */
import type { LeaseRow } from '../../kernel/lease.ts';

/** A larger difference between two readings is a jump. Milliseconds. */
const JUMP_MS = 250;
/** By how much the rates of the two clocks may differ while neither is slewed: 500 ppm. */
const DRIFT_RATE = 0.000_5;
/** By how much they may differ while one is slewed. The watch follows up to this difference. */
const SLEW_RATE = 0.15;
/** How far a slew is followed from one reading to the next, in milliseconds. */
const SLEW_MS_MAX = 150;
/** After a longer time without a reading it is not known what happened meanwhile. Milliseconds. */
const GAP_MS_MAX = 600_000;

/** Passed to a statement that acts on expiry; it decides by this at the moment when it acts. */
export interface ClockBelief {
  /**
   * A reading of the database's clock that it cannot have reached unless it has jumped, or the
   * statement was under way for longer than {@link JUMP_MS}. Nothing is done about expiry past it.
   */
  readonly until: number;
  /** Since when the clock has been watched without a jump. */
  readonly watchedSince: number;
  /** Every grant that expired up to here did so while the clock was watched. */
  readonly settledUntil: number;
}

/** The columns of a lease row that say whether its expiry is believed. */
export type DoubtedRow = Pick<
  LeaseRow,
  'endReason' | 'renewedAt' | 'ttlMs' | 'expiresAt' | 'stopsBy' | 'asOf'
>;

/** A watch as it is kept across a restart of its process. Valid until the machine reboots. */
export interface WatchMemory {
  /** The reading of this machine's clock that came with the newest observation. */
  readonly atMs: number;
  /** The bounds of the difference, as of then. */
  readonly lowestMs: number;
  readonly highestMs: number;
  /** Since when the clock has been watched. */
  readonly watchedSince: number;
}

/** All instants are epoch milliseconds of the database, unless they are called a local reading. */
export interface ClockWatch {
  /** `sentAtMs` and `receivedAtMs` are local readings, `asOf` the database's clock in between. */
  observe(asOf: number, sentAtMs: number, receivedAtMs: number): void;
  /** For a statement that is sent at this local reading. Nothing is believed before the first reading. */
  belief(nowMs: number): ClockBelief;
  /**
   * For how long the expiry of a grant will not be believed, in milliseconds; 0 when it is believed,
   * or when the grant is not over. For answers to people: the statements judge for themselves.
   */
  doubtMs(row: DoubtedRow): number;
  /**
   * Extends this watch back by that of another process, which watched from `since` until a moment after
   * {@link ClockBelief.watchedSince}.
   */
  adopt(since: number): void;
  /** Notes the database's {@link ClockBelief.settledUntil}. */
  settle(until: number): void;
  /** What to keep for the next start; undefined before the first reading. */
  readonly memory: WatchMemory | undefined;
}

interface Watch {
  lowestMs: number;
  highestMs: number;
  /** Local reading of the newest observation. */
  atMs: number;
  /** Local reading at which it began: answers to statements sent before it are ignored. */
  startedAtMs: number;
  watchedSince: number;
}

export function createClockWatch(options: {
  readonly remembered?: WatchMemory | undefined;
  readonly onJump: (jumpMs: number) => void;
}): ClockWatch {
  return new Watcher(options.onJump, options.remembered);
}

class Watcher implements ClockWatch {
  readonly #onJump: (jumpMs: number) => void;
  #watch: Watch | undefined;
  #settledUntil = 0;

  constructor(onJump: (jumpMs: number) => void, remembered: WatchMemory | undefined) {
    this.#onJump = onJump;
    if (remembered !== undefined) this.#watch = { ...remembered, startedAtMs: remembered.atMs };
  }

  get memory(): WatchMemory | undefined {
    if (this.#watch === undefined) return undefined;
    const { atMs, lowestMs, highestMs, watchedSince } = this.#watch;
    return { atMs, lowestMs, highestMs, watchedSince };
  }

  observe(asOf: number, sentAtMs: number, receivedAtMs: number): void {
    const seen = { lowestMs: asOf - receivedAtMs, highestMs: asOf - sentAtMs };
    const watch = this.#watch;
    const gapMs = watch === undefined ? 0 : receivedAtMs - watch.atMs;
    // A local clock that went back was restarted: a container's may be, without its machine.
    if (watch === undefined || gapMs > GAP_MS_MAX || receivedAtMs < watch.startedAtMs) {
      this.#begin(seen, asOf, receivedAtMs);
      return;
    }
    if (sentAtMs < watch.startedAtMs) return;
    // If the clock went back, what expires from here on has not been watched yet.
    this.#settledUntil = Math.min(this.#settledUntil, asOf);
    const jumpMs = follow(watch, seen, Math.max(0, gapMs));
    if (jumpMs === 0) {
      watch.atMs = Math.max(watch.atMs, receivedAtMs);
      return;
    }
    this.#begin(seen, asOf, receivedAtMs);
    this.#onJump(jumpMs);
  }

  #begin(seen: Pick<Watch, 'lowestMs' | 'highestMs'>, asOf: number, receivedAtMs: number): void {
    this.#watch = {
      ...seen,
      atMs: receivedAtMs,
      startedAtMs: receivedAtMs,
      watchedSince: asOf,
    };
  }

  belief(nowMs: number): ClockBelief {
    const settledUntil = this.#settledUntil;
    if (this.#watch === undefined) return { until: 0, watchedSince: 0, settledUntil };
    const { highestMs, watchedSince } = this.#watch;
    return { until: nowMs + highestMs + JUMP_MS, watchedSince, settledUntil };
  }

  doubtMs(row: DoubtedRow): number {
    const overAt = Math.max(row.expiresAt, row.stopsBy ?? -Infinity);
    const isEndedByWord =
      row.endReason !== null && row.endReason !== 'expired' && row.stopsBy === null;
    if (isEndedByWord || row.asOf < overAt) return 0;
    const watchedSince = this.#watch?.watchedSince ?? row.asOf;
    if (row.renewedAt >= watchedSince || overAt <= this.#settledUntil) return 0;
    return Math.max(0, watchedSince + row.ttlMs - row.asOf);
  }

  adopt(since: number): void {
    const watch = this.#watch;
    if (watch !== undefined) watch.watchedSince = Math.min(watch.watchedSince, since);
  }

  settle(until: number): void {
    this.#settledUntil = until;
  }
}

/**
 * Updates a watch with one reading. @returns 0, or by how much the clock has jumped, in milliseconds.
 *
 * Between two readings the clocks may drift apart a little, and be slewed by more. A slew is followed
 * slowly: small steps that come one after the other add up to a jump.
 */
function follow(
  watch: Watch,
  seen: { readonly lowestMs: number; readonly highestMs: number },
  gapMs: number,
): number {
  const driftMs = DRIFT_RATE * gapMs;
  const lowestMs = watch.lowestMs - driftMs;
  const highestMs = watch.highestMs + driftMs;
  const apartMs =
    seen.lowestMs > highestMs
      ? seen.lowestMs - highestMs
      : seen.highestMs < lowestMs
        ? seen.highestMs - lowestMs
        : 0;
  if (apartMs === 0) {
    watch.lowestMs = Math.max(lowestMs, seen.lowestMs);
    watch.highestMs = Math.min(highestMs, seen.highestMs);
    return 0;
  }
  const slewMs = Math.min(SLEW_RATE * gapMs, SLEW_MS_MAX);
  if (Math.abs(apartMs) > JUMP_MS) return apartMs;
  const followedMs = Math.sign(apartMs) * Math.min(Math.abs(apartMs), slewMs);
  const edgeMs = (apartMs > 0 ? highestMs : lowestMs) + followedMs;
  watch.lowestMs = edgeMs;
  watch.highestMs = edgeMs;
  return 0;
}
