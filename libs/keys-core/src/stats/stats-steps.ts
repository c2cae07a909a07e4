import { mergedCounts, percentileMs } from './histogram.ts';
import type { StatsStep } from './sql/stats-buckets.ts';
import type { StatsOverview, StatsPoint } from './stats-types.ts';

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
