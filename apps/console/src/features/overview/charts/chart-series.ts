import type { StatsOverview, StatsPoint } from '@leasehold/api/contract';
import { count, duration } from '~/lib/format.ts';

/** Controllers write their counts every two seconds, and events are counted once they are final. */
const SETTLING_MS = 5_000;

interface ChartSeries {
  readonly name: Exclude<keyof StatsPoint, 'at'>;
  readonly label: string;
  /** A variable of the theme. */
  readonly color: string;
  /** Lines differ by more than their colour. */
  readonly dash?: string;
}

export interface ChartSpec {
  readonly id: string;
  readonly title: string;
  readonly series: readonly ChartSeries[];
  readonly unit: 'count' | 'ms';
  /** The text in place of lines that would all be at zero. */
  readonly nothing: string;
}

/** A value of a chart, for people. */
export function valueText({ unit }: Pick<ChartSpec, 'unit'>, value: number): string {
  return unit === 'ms' ? duration(value) : count(value);
}

/**
 * The steps that are over. The one under way, and for some seconds the one before it, whose last
 * numbers arrive late, would look like a fall at the end of every line.
 */
export function finishedSteps({ series, stepMs, asOf }: StatsOverview): StatsPoint[] {
  const untilMs = Date.parse(asOf) - SETTLING_MS;
  return series.filter(({ at }) => Date.parse(at) + stepMs <= untilMs);
}

/** The charts of the overview; its tables show the same. */
export const CHARTS: readonly ChartSpec[] = [
  {
    id: 'grants',
    title: 'Grants and denials',
    unit: 'count',
    nothing: 'No requests',
    series: [
      { name: 'grants', label: 'Grants', color: 'var(--tone-good)' },
      { name: 'denials', label: 'Denials', color: 'var(--tone-bad)', dash: '5 3' },
    ],
  },
  {
    id: 'renewals',
    title: 'Renewals',
    unit: 'count',
    nothing: 'Nothing was renewed',
    series: [
      { name: 'renewals', label: 'Renewals', color: 'var(--tone-info)' },
      { name: 'refusedRenewals', label: 'Refused', color: 'var(--tone-bad)', dash: '5 3' },
    ],
  },
  {
    id: 'ends',
    title: 'How grants ended',
    unit: 'count',
    nothing: 'No grant ended',
    series: [
      { name: 'releases', label: 'Releases', color: 'var(--tone-good)' },
      { name: 'expiries', label: 'Expiries', color: 'var(--tone-warn)', dash: '5 3' },
      { name: 'revocations', label: 'Revocations', color: 'var(--tone-bad)', dash: '1 3' },
    ],
  },
  {
    id: 'waits',
    title: 'Time waited',
    unit: 'ms',
    nothing: 'Nobody waited',
    series: [
      { name: 'waitMsP50', label: 'p50', color: 'var(--tone-info)' },
      { name: 'waitMsP99', label: 'p99', color: 'var(--tone-warn)', dash: '5 3' },
    ],
  },
  {
    id: 'handover',
    title: 'Handover, from one holder to the next',
    unit: 'ms',
    nothing: 'No handovers',
    series: [
      { name: 'handoverMsP50', label: 'p50', color: 'var(--tone-info)' },
      { name: 'handoverMsP99', label: 'p99', color: 'var(--tone-warn)', dash: '5 3' },
    ],
  },
];
