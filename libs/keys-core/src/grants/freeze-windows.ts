/** When the windows of a recurring freeze are. Pure: the caller gives the instant. */
import { Cron } from 'croner';
import { invalidField } from '../kernel/errors.ts';
import type { Recurrence } from '../kernel/freeze.ts';
import { LIMITS } from '../kernel/limits.ts';

/** Epoch milliseconds: from the one until before the other. */
export interface Window {
  readonly fromMs: number;
  readonly untilMs: number;
}

/** How far a zone's clock has ever been put forward or back at once, and a little more. */
const SHIFT_MS_MAX = 26 * 60 * 60 * 1_000;
/** How many windows are looked through: those of a shift, each of the shortest duration. */
const LOOKED_THROUGH_MAX = 1_000;
/** How many windows a new freeze is tried with, so that none begins before the one before it has ended. */
const TRIED_WINDOWS = 60;

/**
 * The windows that have not ended at an instant, the first `count` of them; fewer when there are no more, or no more
 * that begin before `endMs`.
 *
 * The schedule and the duration are read on the zone's clock. Where that clock is put forward, a window that begins
 * in the hour that is left out begins where the hour would, and one that ends in it ends later by as much as
 * the clock was put forward. Where it is put back, a window begins when its hour comes first, and ends when its
 * hour comes the second time. So a change of the clock never takes anything out of a window.
 */
export function windowsFrom(
  { schedule, durationMs, zone }: Recurrence,
  nowMs: number,
  count: number,
  endMs = Infinity,
): Window[] {
  const clock = new WallClock(zone);
  const found: Window[] = [];
  let startMs = clock.at(nowMs) - durationMs - SHIFT_MS_MAX;
  const starts = cronOf(schedule);
  for (let looked = 0; looked < LOOKED_THROUGH_MAX && found.length < count; looked += 1) {
    const next = starts.nextRun(new Date(startMs))?.getTime();
    if (next === undefined) break;
    startMs = next;
    const window = { fromMs: clock.firstAt(startMs), untilMs: clock.lastAt(startMs + durationMs) };
    if (window.fromMs >= endMs) break;
    if (window.untilMs > nowMs) found.push(window);
  }
  return found;
}

/** @throws {LeaseError} `request.invalid`, with the field that is wrong. */
export function assertRecurrence(recurrence: Recurrence, nowMs: number): void {
  const { schedule, durationMs, zone } = recurrence;
  if (!isZone(zone)) {
    throw invalidField('zone', `must be an IANA time zone such as Europe/Zurich, not "${zone}"`);
  }
  const { freezeMsMin, freezeMsMax } = LIMITS;
  if (!Number.isInteger(durationMs) || durationMs < freezeMsMin || durationMs > freezeMsMax) {
    throw invalidField('durationMs', 'must be from 5 minutes to 31 days, in milliseconds');
  }
  let starts: Date[];
  try {
    starts = cronOf(schedule).nextRuns(TRIED_WINDOWS, new Date(nowMs));
  } catch (cause) {
    throw invalidField('schedule', FIVE_FIELDS, cause);
  }
  if (starts.length === 0) throw invalidField('schedule', 'must name times that come');
  const isApart = starts.every((start, index) => {
    const before = starts[index - 1];
    return before === undefined || before.getTime() + durationMs < start.getTime();
  });
  if (!isApart) {
    throw invalidField('durationMs', 'must be less than the time from one window to the next');
  }
}

const FIVE_FIELDS =
  'must be the five fields of cron: minute, hour, day, month, day of the week, such as "0 17 * * 5"';

/** Every time is read as if it were in UTC: what {@link WallClock} does with it is not left to the library. */
function cronOf(schedule: string): Cron {
  // An instant, which the library takes too, comes once.
  if (schedule.trim().split(/\s+/u).length !== 5) throw new TypeError(FIVE_FIELDS);
  return new Cron(schedule, { mode: '5-part', timezone: 'UTC', paused: true });
}

function isZone(zone: string): boolean {
  // An offset, which runtimes take too, knows no summer.
  if (!/^[A-Za-z]/u.test(zone)) return false;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: zone }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
}

/** The clock on the wall of a zone. Its readings are written as the milliseconds of the same reading in UTC. */
class WallClock {
  readonly #format: Intl.DateTimeFormat;

  constructor(zone: string) {
    this.#format = new Intl.DateTimeFormat('en-u-ca-gregory-nu-latn', {
      timeZone: zone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
  }

  /** What it shows at an instant. */
  at(instantMs: number): number {
    const parts = new Map(
      this.#format.formatToParts(instantMs).map(({ type, value }) => [type, Number(value)]),
    );
    const part = (name: Intl.DateTimeFormatPartTypes): number => parts.get(name) ?? 0;
    const shown = Date.UTC(
      part('year'),
      part('month') - 1,
      part('day'),
      part('hour'),
      part('minute'),
      part('second'),
    );
    return shown + (((instantMs % 1_000) + 1_000) % 1_000);
  }

  /** The first instant at which it shows this time, or a later one of that day. */
  firstAt(wallMs: number): number {
    const [first, last] = this.#around(wallMs);
    if (this.at(first) === wallMs) return first;
    if (this.at(last) === wallMs) return last;
    // The time is left out: in between, the clock was put forward.
    let [before, after] = [first, last];
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2);
      if (this.at(middle) < wallMs) before = middle;
      else after = middle;
    }
    return after;
  }

  /** The last instant at which it shows this time; if it never does, when it would, had it not been put forward. */
  lastAt(wallMs: number): number {
    const [first, last] = this.#around(wallMs);
    return this.at(last) === wallMs || this.at(first) !== wallMs ? last : first;
  }

  /** The instants of a reading by the offsets from before and from after a change of the clock, the earlier first. */
  #around(wallMs: number): [number, number] {
    const offset = (aroundMs: number): number => this.at(aroundMs) - aroundMs;
    const one = wallMs - offset(wallMs - SHIFT_MS_MAX);
    const other = wallMs - offset(wallMs + SHIFT_MS_MAX);
    return one <= other ? [one, other] : [other, one];
  }
}
