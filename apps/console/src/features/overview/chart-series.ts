import type { StatsPoint } from '@leasehold/api/contract';
import { count, duration } from '~/lib/format.ts';

export interface ChartSeries {
  readonly name: Exclude<keyof StatsPoint, 'at'>;
  readonly label: string;
  /** A variable of the theme. */
  readonly color: string;
  /** Lines are told apart by more than their colour. */
  readonly dash?: string;
}

export interface ChartSpec {
  readonly id: string;
  readonly title: string;
  readonly series: readonly ChartSeries[];
  readonly valueText: (value: number) => string;
}

const milliseconds = (value: number): string => duration(value);

/** What the overview draws, and what its tables say. */
export const CHARTS: readonly ChartSpec[] = [
  {
    id: 'grants',
    title: 'Grants and denials',
    valueText: count,
    series: [
      { name: 'grants', label: 'Grants', color: 'var(--tone-good)' },
      { name: 'denials', label: 'Denials', color: 'var(--tone-bad)', dash: '5 3' },
    ],
  },
  {
    id: 'renewals',
    title: 'Renewals',
    valueText: count,
    series: [
      { name: 'renewals', label: 'Renewals', color: 'var(--tone-info)' },
      { name: 'refusedRenewals', label: 'Refused', color: 'var(--tone-bad)', dash: '5 3' },
    ],
  },
  {
    id: 'ends',
    title: 'How grants ended',
    valueText: count,
    series: [
      { name: 'releases', label: 'Releases', color: 'var(--tone-good)' },
      { name: 'expiries', label: 'Expiries', color: 'var(--tone-warn)', dash: '5 3' },
      { name: 'revocations', label: 'Revocations', color: 'var(--tone-bad)', dash: '1 3' },
    ],
  },
  {
    id: 'waits',
    title: 'Time waited',
    valueText: milliseconds,
    series: [
      { name: 'waitMsP50', label: 'p50', color: 'var(--tone-info)' },
      { name: 'waitMsP99', label: 'p99', color: 'var(--tone-warn)', dash: '5 3' },
    ],
  },
  {
    id: 'handover',
    title: 'Handover, from one holder to the next',
    valueText: milliseconds,
    series: [
      { name: 'handoverMsP50', label: 'p50', color: 'var(--tone-info)' },
      { name: 'handoverMsP99', label: 'p99', color: 'var(--tone-warn)', dash: '5 3' },
    ],
  },
];
