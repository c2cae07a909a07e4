import { createContext, use, useSyncExternalStore } from 'react';
import { pause } from './live-state.ts';

/** When stale data came, in the database's epoch milliseconds; null when that is not known. */
interface StaleSince {
  readonly databaseMs: number | null;
}

/** Set around what shows a read, for as long as the read is stale. */
export const StaleContext = createContext<StaleSince | null>(null);

/** When the stale data that is shown around here came; null where the data is fresh. */
export function useStaleSince(): StaleSince | null {
  return use(StaleContext);
}

const TICK_MS = 1_000;

const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;
let nowMs: number | null = null;

function tick(): void {
  // While updates are paused, by hand or by a dialog, countdowns stand still: a grant that is renewed
  // meanwhile would seem to run out.
  if (pause.isPaused()) return;
  nowMs = databaseClock.nowMs();
  for (const listener of [...listeners]) listener();
}

/**
 * While paused, the clock stands still, but never behind what is shown: a page that is opened
 * meanwhile sets it to its own time, or its countdowns would promise too much.
 */
export function bringClockTo(dataMs: number | null): void {
  if (!pause.isPaused() || dataMs === null || nowMs === null || dataMs <= nowMs) return;
  nowMs = dataMs;
  for (const listener of [...listeners]) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(tick, TICK_MS);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
    nowMs = null;
  };
}

/**
 * The database's time in epoch milliseconds, once a second; null before the first answer and while a
 * server renders: then the time of the data itself counts. Around stale data it stands still.
 */
export function useDatabaseNow(): number | null {
  return useAtDatabaseNow(asItIs);
}

/**
 * What is made of the database's time, such as a text: what uses it is rendered again only when that changes,
 * and not with every second.
 */
export function useAtDatabaseNow<Value extends string | number | boolean | null>(
  of: (nowMs: number | null) => Value,
): Value {
  const stale = useStaleSince();
  const read = (): Value =>
    of(stale === null ? (nowMs ??= databaseClock.nowMs()) : stale.databaseMs);
  return useSyncExternalStore(subscribe, read, () => of(stale === null ? null : stale.databaseMs));
}

const asItIs = (ms: number | null): number | null => ms;

/**
 * The database's clock, as far as a browser can know it. Each answer says when the database made it
 * (`asOf`); from then on the browser's monotonic clock counts. An answer is older on arrival than
 * when it was made, so of the readings of the last minute the one that says the latest is best. The
 * browser's wall clock is used only to report that it is wrong.
 */
const READINGS_MAX = 32;
const READING_AGE_MS_MAX = 60_000;
/** From this difference on a person is told that their machine's clock is off. */
const SKEW_MS_SAID = 5_000;

interface Reading {
  readonly takenAtMs: number;
  readonly offsetMs: number;
}

let readings: Reading[] = [];

export const databaseClock = {
  /** Takes the time of an answer, if it has one. */
  observe(answer: unknown): void {
    const asOf = asOfOf(answer);
    if (asOf === undefined || typeof window === 'undefined') return;
    const takenAtMs = performance.now();
    readings = [
      ...readings.filter((reading) => takenAtMs - reading.takenAtMs < READING_AGE_MS_MAX),
      { takenAtMs, offsetMs: Date.parse(asOf) - takenAtMs },
    ].slice(-READINGS_MAX);
  },
  /** The database's time in epoch milliseconds; null before the first answer. */
  nowMs(): number | null {
    if (readings.length === 0) return null;
    return performance.now() + Math.max(...readings.map(({ offsetMs }) => offsetMs));
  },
  /** How far this machine's clock is ahead, in milliseconds, where that is worth saying; else null. */
  skewMs(): number | null {
    const nowMs = databaseClock.nowMs();
    if (nowMs === null) return null;
    const skewMs = Date.now() - nowMs;
    return Math.abs(skewMs) >= SKEW_MS_SAID ? skewMs : null;
  },
};

function asOfOf(answer: unknown): string | undefined {
  if (typeof answer !== 'object' || answer === null || !('asOf' in answer)) return undefined;
  return typeof answer.asOf === 'string' ? answer.asOf : undefined;
}
