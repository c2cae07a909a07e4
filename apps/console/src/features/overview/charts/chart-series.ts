import type { StatsOverview, StatsPoint } from '@leasehold/api/contract';
import { count, duration } from '~/lib/format.ts';
import { createSignal } from '~/lib/signal.ts';

/** Controllers write their counts every two seconds, and events are counted once they are final. */
const SETTLING_MS = 5_000;

interface ChartSeries {
  readonly name: Exclude<keyof StatsPoint, 'at'>;
  readonly label: string;
  /** A variable of the theme. */
  readonly color: `--${string}`;
  /** Lines differ by more than their colour. */
  readonly dash?: readonly number[];
  /** The events that it counts; what has no events has no list. */
  readonly kinds?: readonly string[];
}

export interface ChartSpec {
  readonly id: string;
  readonly title: string;
  readonly series: readonly ChartSeries[];
  readonly unit: 'count' | 'ms';
  /** What it is about, for a sentence that there was nothing of it. */
  readonly nothing: string;
}

/** A value of a chart, for people. */
export function valueText({ unit }: Pick<ChartSpec, 'unit'>, value: number): string {
  return unit === 'ms' ? duration(value) : count(value);
}

/** A number of a legend; a dash where nothing was measured. */
export function numberText(chart: Pick<ChartSpec, 'unit'>, value: number | null): string {
  return value === null ? '–' : valueText(chart, value);
}

/** How many characters the longest number of a legend has, wherever the cursor is. */
export function numberLength(
  chart: Pick<ChartSpec, 'unit' | 'series'>,
  all: readonly Readonly<Record<ChartSeries['name'], number | null>>[],
): number {
  const texts = all.flatMap((one) => chart.series.map(({ name }) => numberText(chart, one[name])));
  return Math.max(...texts.map((text) => text.length));
}

/**
 * The steps that are over. The one under way, and for some seconds the one before it, whose last
 * numbers arrive late, would look like a fall at the end of every line.
 */
export function finishedSteps({
  series,
  stepMs,
  asOf,
}: Pick<StatsOverview, 'series' | 'stepMs' | 'asOf'>): StatsPoint[] {
  const untilMs = Date.parse(asOf) - SETTLING_MS;
  return series.filter(({ at }) => Date.parse(at) + stepMs <= untilMs);
}

/** Whether two readings have the same steps with the same numbers: then nothing is drawn again. */
export function isSameSteps(one: readonly StatsPoint[], other: readonly StatsPoint[]): boolean {
  return (
    one.length === other.length &&
    one.every((point, index) => {
      const there = other[index];
      return point === there || JSON.stringify(point) === JSON.stringify(there);
    })
  );
}

/** The greatest value that is drawn; null when nothing happened: no times, or only counts of zero. */
export function greatestOf(
  { series, unit }: ChartSpec,
  points: readonly StatsPoint[],
): number | null {
  const values = points
    .flatMap((point) => series.map(({ name }) => point[name]))
    .filter((value) => value !== null)
    .filter((value) => unit === 'ms' || value > 0);
  return values.length === 0 ? null : Math.max(1, ...values);
}

/** The places of values without a neighbour, to which no line leads: they are drawn as points. */
export function isolatedPlaces(values: readonly (number | null | undefined)[]): number[] {
  return values.flatMap((value, place) => {
    const isAlone = values[place - 1] == null && values[place + 1] == null;
    return value != null && isAlone ? [place] : [];
  });
}

/** The charts of the overview; its tables show the same. */
export const CHARTS: readonly ChartSpec[] = [
  {
    id: 'grants',
    title: 'Grants and denials',
    unit: 'count',
    nothing: 'grants',
    series: [
      { name: 'grants', label: 'Grants', color: '--tone-good', kinds: ['granted', 'taken_over'] },
      { name: 'denials', label: 'Denials', color: '--tone-bad', dash: [5, 3] },
    ],
  },
  {
    id: 'renewals',
    title: 'Renewals',
    unit: 'count',
    nothing: 'renewals',
    series: [
      { name: 'renewals', label: 'Renewals', color: '--tone-info' },
      {
        name: 'refusedRenewals',
        label: 'Refused',
        color: '--tone-bad',
        dash: [5, 3],
        kinds: ['renewal_refused'],
      },
    ],
  },
  {
    id: 'ends',
    title: 'How grants ended',
    unit: 'count',
    nothing: 'ended grants',
    series: [
      { name: 'releases', label: 'Releases', color: '--tone-good', kinds: ['released', 'failed'] },
      {
        name: 'expiries',
        label: 'Expiries',
        color: '--tone-warn',
        dash: [5, 3],
        kinds: ['expired'],
      },
      {
        name: 'revocations',
        label: 'Revocations',
        color: '--tone-bad',
        dash: [2, 3],
        kinds: ['revoked'],
      },
    ],
  },
  {
    id: 'waits',
    title: 'Time waited',
    unit: 'ms',
    nothing: 'waits',
    series: [
      { name: 'waitMsP50', label: 'p50', color: '--tone-info' },
      { name: 'waitMsP99', label: 'p99', color: '--tone-warn', dash: [5, 3] },
    ],
  },
  {
    id: 'handover',
    title: 'Handover time, from one holder to the next',
    unit: 'ms',
    nothing: 'handovers',
    series: [
      { name: 'handoverMsP50', label: 'p50', color: '--tone-info' },
      { name: 'handoverMsP99', label: 'p99', color: '--tone-warn', dash: [5, 3] },
    ],
  },
];

/** The beginning of the step that the cursor of all charts is at, epoch milliseconds; null for none. */
export const chartCursor = createSignal<number | null>(null);

/** Where a key moves the cursor; undefined for a key that does not move it. Pure. */
export function movedBy(
  key: string,
  atMs: number | null,
  steps: readonly number[],
): number | null | undefined {
  const last = steps.length - 1;
  const place = atMs === null ? -1 : steps.indexOf(atMs);
  // Without a cursor both arrows begin at the newest step.
  const from = (step: number): number => (place === -1 ? last : place + step);
  const places: Readonly<Record<string, number>> = {
    ArrowLeft: Math.max(0, from(-1)),
    ArrowRight: Math.min(last, from(1)),
    Home: 0,
    End: last,
  };
  if (key === 'Escape') return null;
  const next = places[key];
  return next === undefined ? undefined : (steps[next] ?? null);
}
