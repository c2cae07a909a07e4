/**
 * The database's clock, as far as a browser can know it. Each answer says when the database made it
 * (`asOf`); from then on the browser's monotonic clock counts. An answer is older on arrival than
 * when it was made, so of the readings of the last minute the one that says the latest is best. The
 * browser's wall clock is used only to report that it is wrong.
 */
const READINGS_MAX = 32;
const READING_AGE_MS_MAX = 60_000;
/** From this difference on a person is told that their machine's clock is off. */
const SKEW_MS_SAID = 5_000;

interface Reading {
  readonly takenAtMs: number;
  readonly offsetMs: number;
}

let readings: Reading[] = [];

export const databaseClock = {
  /** Takes the time of an answer, if it has one. */
  observe(answer: unknown): void {
    const asOf = asOfOf(answer);
    if (asOf === undefined || typeof window === 'undefined') return;
    const takenAtMs = performance.now();
    readings = [
      ...readings.filter((reading) => takenAtMs - reading.takenAtMs < READING_AGE_MS_MAX),
      { takenAtMs, offsetMs: Date.parse(asOf) - takenAtMs },
    ].slice(-READINGS_MAX);
  },
  /** The database's time in epoch milliseconds; null before the first answer. */
  nowMs(): number | null {
    if (readings.length === 0) return null;
    return performance.now() + Math.max(...readings.map(({ offsetMs }) => offsetMs));
  },
  /** How far this machine's clock is ahead, in milliseconds, where that is worth saying; else null. */
  skewMs(): number | null {
    const nowMs = databaseClock.nowMs();
    if (nowMs === null) return null;
    const skewMs = Date.now() - nowMs;
    return Math.abs(skewMs) >= SKEW_MS_SAID ? skewMs : null;
  },
};

function asOfOf(answer: unknown): string | undefined {
  if (typeof answer !== 'object' || answer === null || !('asOf' in answer)) return undefined;
  return typeof answer.asOf === 'string' ? answer.asOf : undefined;
}
