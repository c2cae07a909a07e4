/**
 * Durations as a fixed histogram: small, added to by many at once, and merged by adding. Six bounds
 * for each power of ten keep a percentile within a factor of 1.7 of the truth (3 to 5 is the widest
 * step), and closer where durations are spread.
 */

/**
 * Upper bounds, inclusive, in milliseconds; a last place counts what is longer. Stored counts refer to
 * these bounds: more may be added at the end, but they must never change.
 */
import type { StatsOverview, StatsPoint, StatsStep } from './stats-types.ts';

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

/** How many points fit on a chart, and in an answer. */
const POINTS_MAX = 120;
/** Whole multiples of a bucket that people can read: 10 s to 12 min, which is a day in 120 steps. */
const STEPS_MS = [
  10_000, 20_000, 30_000, 60_000, 120_000, 180_000, 300_000, 600_000, 720_000,
] as const;

/** How a window is divided: into the shortest steps of which no more than 120 are needed. */
export function stepsOf(windowMinutes: number): { stepMs: number; stepCount: number } {
  const windowMs = windowMinutes * 60_000;
  const stepMs =
    STEPS_MS.find((candidate) => windowMs / candidate <= POINTS_MAX) ??
    Math.ceil(windowMs / POINTS_MAX);
  return { stepMs, stepCount: Math.ceil(windowMs / stepMs) };
}

/**
 * Every step of a window, oldest first, empty ones as zeros. The last one holds `asOf`;
 * it is still being filled.
 */
export function seriesOf(
  steps: readonly StatsStep[],
  window: { readonly asOf: number; readonly stepMs: number; readonly stepCount: number },
): StatsPoint[] {
  const { asOf, stepMs, stepCount } = window;
  const byBeginning = new Map(steps.map((step) => [step.at, step]));
  const newest = Math.floor(asOf / stepMs) * stepMs;
  return Array.from({ length: stepCount }, (_, index) => {
    const at = newest - (stepCount - 1 - index) * stepMs;
    const step = byBeginning.get(at);
    return { at: new Date(at).toISOString(), ...numbersOf(step === undefined ? [] : [step]) };
  });
}

/** The steps of a window, and those of the time before it. */
export function splitSteps(
  steps: readonly StatsStep[],
  { asOf, stepMs, stepCount }: { asOf: number; stepMs: number; stepCount: number },
): { within: StatsStep[]; before: StatsStep[] } {
  const first = (Math.floor(asOf / stepMs) - stepCount + 1) * stepMs;
  return {
    within: steps.filter(({ at }) => at >= first),
    before: steps.filter(({ at }) => at < first),
  };
}

/** The numbers of several steps together. */
export function numbersOf(steps: readonly StatsStep[]): StatsOverview['totals'] {
  const sum = (of: (step: StatsStep) => number): number =>
    steps.reduce((total, step) => total + of(step), 0);
  const waits = mergedCounts(steps.map((step) => step.waits));
  const handovers = mergedCounts(steps.map((step) => step.handovers));
  return {
    grants: sum((step) => step.grants),
    denials: sum((step) => step.denials),
    renewals: sum((step) => step.renewals),
    refusedRenewals: sum((step) => step.refusedRenewals),
    releases: sum((step) => step.releases),
    expiries: sum((step) => step.expiries),
    revocations: sum((step) => step.revocations),
    waitMsP50: percentileMs(waits, 0.5),
    waitMsP99: percentileMs(waits, 0.99),
    handoverMsP50: percentileMs(handovers, 0.5),
    handoverMsP99: percentileMs(handovers, 0.99),
  };
}
