import { textParam } from '~/lib/address.ts';

/** The time that a list is about, as its address has it. */
export interface TimeRange {
  /** The time up to now, such as `15m`, `1h` or `7d`: it stays relative. Null for none. */
  readonly range: string | null;
  /** From when to when, otherwise: ISO-8601 instants; null for no bound. */
  readonly from: string | null;
  readonly to: string | null;
}

export const ANY_TIME: TimeRange = { range: null, from: null, to: null };

/** The usual ones. */
export const QUICK_RANGES = [
  { range: '15m', label: 'Last 15 min' },
  { range: '1h', label: 'Last hour' },
  { range: '24h', label: 'Last 24 h' },
  { range: '7d', label: 'Last 7 days' },
] as const;

const UNITS = {
  m: { minutes: 1, name: 'min' },
  h: { minutes: 60, name: 'h' },
  d: { minutes: 24 * 60, name: 'days' },
} as const;
const RANGE = /^([1-9]\d{0,3})([mhd])$/u;
const WINDOW_MINUTES_MAX = 366 * 24 * 60;

/** Fields of an address as a range. What is not valid is left out; a relative range comes first. */
export function timeRangeOf(address: TimeRange): TimeRange {
  if (windowMinutesOf(address.range) !== undefined) return { ...ANY_TIME, range: address.range };
  return { range: null, from: instantOf(address.from), to: instantOf(address.to) };
}

/** The filters of a list's input for a range. */
export function timeRangeInput(address: TimeRange) {
  const { range, from, to } = timeRangeOf(address);
  return {
    windowMinutes: windowMinutesOf(range),
    from: from ?? undefined,
    to: to ?? undefined,
  };
}

export function isAnyTime({ range, from, to }: TimeRange): boolean {
  return range === null && from === null && to === null;
}

/** What is shown, for the button that changes it: `Last hour`, `since 2026-11-21 10:00`. */
export function timeRangeText({ range, from, to }: TimeRange): string {
  if (range !== null) {
    const quick = QUICK_RANGES.find((one) => one.range === range);
    return quick?.label ?? otherRangeText(range);
  }
  const short = (instant: string): string => instant.slice(0, 16).replace('T', ' ');
  if (from !== null && to !== null) return `${short(from)} – ${short(to)}`;
  if (from !== null) return `since ${short(from)}`;
  return to === null ? 'Any time' : `before ${short(to)}`;
}

function otherRangeText(range: string): string {
  const [, number = '', unit = 'm'] = RANGE.exec(range) ?? [];
  return `Last ${number} ${UNITS[unit as keyof typeof UNITS].name}`;
}

function windowMinutesOf(range: string | null): number | undefined {
  const [, number, unit] = RANGE.exec(range ?? '') ?? [];
  if (number === undefined || unit === undefined) return undefined;
  const minutes = Number(number) * UNITS[unit as keyof typeof UNITS].minutes;
  return minutes <= WINDOW_MINUTES_MAX ? minutes : undefined;
}

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z$/u;

/** An instant in UTC as the API takes it; null for anything else. */
function instantOf(text: string | null): string | null {
  return text !== null && INSTANT.test(text) && !Number.isNaN(Date.parse(text))
    ? new Date(text).toISOString()
    : null;
}

/** The value of an `<input type="datetime-local">` for an instant, in UTC. */
export function toInput(instant: string | null): string {
  return instant === null ? '' : instant.slice(0, 16);
}

export function fromInput(text: string): string | null {
  return text === '' ? null : instantOf(`${text}Z`);
}

/** The fields of an address that hold a time range, for `useQueryStates`. */
export const TIME_RANGE_PARAMS = {
  range: textParam,
  from: textParam,
  to: textParam,
} as const;
