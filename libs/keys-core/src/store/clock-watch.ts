/**
 * Watches the database's clock from outside. It is the one wall clock that matters, so it must be
 * slewed and never stepped: a step forward would expire every grant at once while its holders are
 * in their first seconds.
 *
 * Each statement gives an interval in which the difference between the database's clock and this
 * machine's monotonic clock lies: the database read its clock after the statement was sent and
 * before its answer came. When two intervals lie further apart than {@link JUMP_MS}, the clock has
 * jumped, whatever the network did. For one ladder from then on nothing is taken over by expiry.
 */
const JUMP_MS = 250;

export interface ClockWatch {
  /** `sentAtMs` and `receivedAtMs` are readings of this machine's clock, `asOf` the database's. */
  observe(asOf: number, sentAtMs: number, receivedAtMs: number): void;
  /** What the database's word that a grant has expired is worth to a statement sent now. */
  belief(nowMs: number): ClockBelief;
}

/** Handed to a statement that acts on expiry, which judges by it at the moment when it acts. */
export interface ClockBelief {
  /** False for one ladder after a jump was seen. */
  readonly mayTakeOver: boolean;
  /**
   * A reading of the database's clock, in epoch milliseconds, that it cannot have reached unless it
   * has jumped: so that the very statement which would meet a jump first does not act on it.
   */
  readonly believeUntil: number | undefined;
}

/** How long a statement may be under way: it waits for a connection, and then for its own timeout. */
const STATEMENT_MS = 5_000;

export function createClockWatch(options: {
  /** How long nothing is taken over after a jump: the longest ladder. 0 trusts the clock. */
  readonly quietMs: number;
  readonly onJump: (jumpMs: number) => void;
}): ClockWatch {
  let lowest: number | undefined;
  let highest: number | undefined;
  let quietUntilMs = -Infinity;
  return {
    observe(asOf, sentAtMs, receivedAtMs) {
      const low = asOf - receivedAtMs;
      const high = asOf - sentAtMs;
      if (lowest !== undefined && highest !== undefined) {
        const jumpMs = low > highest ? low - highest : high < lowest ? high - lowest : 0;
        if (Math.abs(jumpMs) > JUMP_MS) {
          quietUntilMs = receivedAtMs + options.quietMs;
          options.onJump(jumpMs);
        }
      }
      lowest = low;
      highest = high;
    },
    belief: (nowMs) => ({
      mayTakeOver: nowMs >= quietUntilMs,
      believeUntil:
        highest === undefined || options.quietMs === 0
          ? undefined
          : nowMs + highest + JUMP_MS + STATEMENT_MS,
    }),
  };
}
