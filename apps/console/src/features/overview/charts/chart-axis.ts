/** Where the marks of the axes are, and what they say. Pure. */
import { count, duration } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';
import type { AuditEntry } from '~/resources/audit.ts';
import type { ChartSpec } from './chart-series.ts';

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
  const groups: AuditEntry[][] = [];
  const newestFirst = acts.toSorted((one, other) => Date.parse(other.at) - Date.parse(one.at));
  for (const act of newestFirst) {
    const atMs = Date.parse(act.at);
    if (atMs < fromMs || atMs > toMs) continue;
    const group = groups.at(-1);
    const newest = group?.[0];
    if (group !== undefined && newest !== undefined && Date.parse(newest.at) - atMs < togetherMs) {
      group.push(act);
    } else groups.push([act]);
  }
  return groups.map((group) => ({
    acts: group,
    atMs: Date.parse(group.at(-1)?.at ?? ''),
    href: auditHref(group),
  }));
}

function auditHref(acts: readonly AuditEntry[]): string {
  const [newest] = acts;
  const oldest = acts.at(-1);
  if (newest === undefined || oldest === undefined) return routes.audit();
  // `to` itself is not included.
  const to = new Date(Date.parse(newest.at) + 1).toISOString();
  return routes.audit({
    ...{ from: oldest.at, to },
    ...(acts.length === 1 ? { action: newest.action, q: `actor:"${newest.actor}"` } : {}),
  });
}
