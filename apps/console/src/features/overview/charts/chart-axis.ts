import type { StatsOverview } from '@leasehold/api/contract';
import { finishedSteps, type ChartSpec } from './chart-series.ts';

const TICKS_MAX = 4;
const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
/** The steps for times in minutes: whole numbers of minutes, or half a minute. */
const MINUTE_STEPS_MS = [0.5, 1, 2, 5, 10, 20, 30, 60].map((minutes) => minutes * MINUTE_MS);

/** The greatest value that is drawn; null when nothing happened: no times, or only counts of zero. */
export function greatestOf({ series, unit }: ChartSpec, stats: StatsOverview): number | null {
  const values = finishedSteps(stats)
    .flatMap((point) => series.map(({ name }) => point[name]))
    .filter((value) => value !== null)
    .filter((value) => unit === 'ms' || value > 0);
  return values.length === 0 ? null : Math.max(1, ...values);
}

/** The marks of an axis from zero on, evenly spaced, at values that need no rounding. */
export function axisTicks(greatest: number, unit: ChartSpec['unit']): number[] {
  const step = unit === 'ms' ? stepOfTimes(greatest) : stepOfCounts(greatest);
  const stepCount = Math.max(1, Math.ceil(greatest / step));
  return Array.from({ length: stepCount + 1 }, (_, index) => index * step);
}

/** 1, 2 or 5, times a power of ten. */
function stepOfCounts(greatest: number): number {
  const least = Math.max(1, greatest / TICKS_MAX);
  const decade = 10 ** Math.floor(Math.log10(least));
  return decade * ([1, 2, 5].find((digit) => digit * decade >= least) ?? 10);
}

/** Times are written in whole milliseconds, seconds or minutes. */
function stepOfTimes(greatestMs: number): number {
  if (greatestMs < SECOND_MS) return stepOfCounts(greatestMs);
  if (greatestMs < MINUTE_MS) return stepOfCounts(greatestMs / SECOND_MS) * SECOND_MS;
  const least = greatestMs / TICKS_MAX;
  return MINUTE_STEPS_MS.find((stepMs) => stepMs >= least) ?? stepOfCounts(least);
}
