/**
 * Durations as a fixed histogram: small, added to by many at once, and merged by adding. Six bounds
 * for each power of ten keep a percentile within a factor of 1.7 of the truth (3 to 5 is the widest
 * step), and closer where durations are spread.
 */

/**
 * Upper bounds, inclusive, in milliseconds; a last place counts what is longer. Stored counts refer to
 * these bounds: more may be added at the end, but they must never change.
 */
const DURATION_BOUNDS_MS = [
  1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000, 1_500, 2_000,
  3_000, 5_000, 7_000, 10_000, 15_000, 20_000, 30_000, 50_000, 70_000, 100_000, 120_000,
] as const;

/** How many numbers a histogram has. */
export const DURATION_PLACES = DURATION_BOUNDS_MS.length + 1;

/** Where a duration is counted. */
export function placeOfDuration(durationMs: number): number {
  const place = DURATION_BOUNDS_MS.findIndex((bound) => durationMs <= bound);
  return place === -1 ? DURATION_BOUNDS_MS.length : place;
}

/**
 * The duration that a share of all does not exceed, interpolated between the bounds around it; null for
 * an empty histogram. A duration above the last bound is reported as the last bound.
 */
export function percentileMs(counts: readonly number[], share: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  const wanted = share * total;
  let before = 0;
  for (const [place, count] of counts.entries()) {
    if (count > 0 && before + count >= wanted) {
      const low = DURATION_BOUNDS_MS[place - 1] ?? 0;
      const high = DURATION_BOUNDS_MS[place] ?? low;
      return low + ((high - low) * (wanted - before)) / count;
    }
    before += count;
  }
  return DURATION_BOUNDS_MS[DURATION_BOUNDS_MS.length - 1] ?? null;
}

/** The sum of histograms of the same bounds. */
export function mergedCounts(histograms: readonly (readonly number[])[]): number[] {
  const merged = new Array<number>(DURATION_PLACES).fill(0);
  for (const counts of histograms) {
    for (const [place, count] of counts.entries()) merged[place] = (merged[place] ?? 0) + count;
  }
  return merged;
}
