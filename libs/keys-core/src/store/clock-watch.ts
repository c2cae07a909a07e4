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
  /** Whether the database's word that a grant has expired may be acted on now. */
  mayTakeOver(nowMs: number): boolean;
}

export function createClockWatch(options: {
  /** How long nothing is taken over after a jump: the longest ladder. */
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
    mayTakeOver: (nowMs) => nowMs >= quietUntilMs,
  };
}
