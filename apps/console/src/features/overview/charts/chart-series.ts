import type { StatsOverview, StatsPoint } from '@leasehold/api/contract';
import { count, duration } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';
import { createSignal } from '~/lib/signal.ts';
import type { AuditEntry } from '~/resources/audit.ts';

// Where the marks of the axes are, and what they say.

const TICKS_MAX = 4;
const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/** The steps for times in minutes: whole numbers of minutes, or half a minute. */
const MINUTE_STEPS_MS = [0.5, 1, 2, 5, 10, 20, 30, 60].map((minutes) => minutes * MINUTE_MS);
/** The steps of the axis of time: all divide a day, so that marks are at full hours and midnight. */
const CLOCK_STEPS_MS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720].map(
  (minutes) => minutes * MINUTE_MS,
);
/** The room that a time of day needs. */
const CLOCK_LABEL_PX = 64;
/** Below this, thousands are written out. */
const SHORT_FROM = 10_000;

/** The marks of an axis from zero on, evenly spaced, at values that need no rounding. */
export function axisTicks(greatest: number, unit: ChartSpec['unit']): number[] {
  const step = unit === 'ms' ? stepOfTimes(greatest) : stepOfCounts(greatest);
  const stepCount = Math.max(1, Math.ceil(greatest / step));
  return Array.from({ length: stepCount + 1 }, (_, index) => index * step);
}

/** A mark in words: `8 s`, `400`, `20k`. */
export function tickText(value: number, unit: ChartSpec['unit']): string {
  if (value === 0) return '0';
  if (unit === 'ms') return duration(value);
  return value < SHORT_FROM ? count(value) : `${String(value / 1_000)}k`;
}

/** The marks of the axis of time, epoch milliseconds: as many as have room, at round times of day, UTC. */
export function clockTicks(fromMs: number, toMs: number, widthPx: number): number[] {
  const room = Math.max(1, Math.floor(widthPx / CLOCK_LABEL_PX));
  const least = (toMs - fromMs) / room;
  const stepMs = CLOCK_STEPS_MS.find((candidate) => candidate >= least) ?? DAY_MS;
  const first = Math.ceil(fromMs / stepMs) * stepMs;
  const tickCount = Math.max(0, Math.floor((toMs - first) / stepMs) + 1);
  return Array.from({ length: tickCount }, (_, index) => first + index * stepMs);
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** `17:05`; midnight as the day that begins: `26 Nov`. UTC. */
export function clockText(atMs: number): string {
  const at = new Date(atMs);
  if (atMs % DAY_MS === 0) return `${String(at.getUTCDate())} ${MONTHS[at.getUTCMonth()] ?? ''}`;
  return at.toISOString().slice(11, 16);
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

// What people did, as marks on the axis of time.

/** Acts closer than this have one mark. */
const TOGETHER_PX = 24;

/** One act, or several that are too close to tell apart, newest first. */
export interface ActMark {
  readonly acts: readonly AuditEntry[];
  /** Of the first of them, epoch milliseconds. */
  readonly atMs: number;
  /** Its entries in the audit, and no others. */
  readonly href: string;
}

/**
 * The marks of a chart that spans this time in so much room. The audit lists acts in the order in which they were
 * recorded: where the database's clock was set back, that is not the order of their times.
 */
export function marksOf(
  acts: readonly AuditEntry[],
  {
    fromMs,
    toMs,
    widthPx,
  }: { readonly fromMs: number; readonly toMs: number; readonly widthPx: number },
): ActMark[] {
  const togetherMs = ((toMs - fromMs) / Math.max(1, widthPx)) * TOGETHER_PX;
  const groups: { readonly atMs: number; readonly acts: AuditEntry[] }[] = [];
  const oldestFirst = acts.toSorted((one, other) => Date.parse(one.at) - Date.parse(other.at));
  for (const act of oldestFirst) {
    const atMs = Date.parse(act.at);
    if (atMs < fromMs || atMs > toMs) continue;
    // Measured from the first one, where the mark is: so no two marks are closer than this.
    const group = groups[0];
    if (group !== undefined && atMs - group.atMs < togetherMs) group.acts.unshift(act);
    else groups.unshift({ atMs, acts: [act] });
  }
  return groups.map((group) => ({ ...group, href: auditHref(group.acts) }));
}

/** The moment of the oldest act that is listed, if there are older ones that are not; otherwise null. */
export function markedSince(page: {
  readonly items: readonly Pick<AuditEntry, 'at'>[];
  readonly nextCursor: string | null;
}): string | null {
  return page.nextCursor === null ? null : (page.items.at(-1)?.at ?? null);
}

function auditHref(acts: readonly AuditEntry[]): string {
  const [newest] = acts;
  const oldest = acts.at(-1);
  if (newest === undefined || oldest === undefined) return routes.audit();
  // `to` itself is not included.
  const to = new Date(Date.parse(newest.at) + 1).toISOString();
  return routes.audit({
    from: oldest.at,
    to,
    ...(acts.length === 1 ? { action: newest.action, q: `actor:"${newest.actor}"` } : {}),
  });
}

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
