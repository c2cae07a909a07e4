import { useSyncExternalStore, createContext, use } from 'react';
import { databaseClock } from './database-clock.ts';
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
