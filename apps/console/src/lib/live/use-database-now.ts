'use client';

import { useSyncExternalStore } from 'react';
import { databaseClock } from './database-clock.ts';
import { pause } from './live-state.ts';
import { useStaleSince } from './stale-since.ts';

const TICK_MS = 1_000;

const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;
let nowMs: number | null = null;

function tick(): void {
  // While nothing is read, by hand or behind a dialog, a countdown stands still, text and bar: a grant
  // that is renewed unseen would seem to run out.
  if (pause.isPaused()) return;
  nowMs = databaseClock.nowMs();
  for (const listener of [...listeners]) listener();
}

/**
 * Paused, the clock stands still, but never before what is shown: a page that is opened
 * meanwhile brings its own time, or its countdowns would promise more than there is.
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
 * The database's time in epoch milliseconds, once a second; null until a first answer has told it
 * (and while a server renders): then what is shown is as of the data. Around stale data it stands still.
 */
export function useDatabaseNow(): number | null {
  const stale = useStaleSince();
  const tickMs = useSyncExternalStore(
    subscribe,
    () => (nowMs ??= databaseClock.nowMs()),
    () => null,
  );
  return stale === null ? tickMs : stale.databaseMs;
}
