'use client';

import { useEffect, useState } from 'react';
import { databaseClock } from '../database-clock.ts';
import { useSignal } from '../use-signal.ts';
import { pause } from './live-state.ts';

/** From this age on the data on a page is called stale, whatever the stream says. */
export const STALE_MS = 12_000;
const TICK_MS = 500;

/** What a query says of its answers. */
export interface Read {
  readonly dataUpdatedAt: number;
  readonly isError: boolean;
  readonly failureCount: number;
}

export interface Freshness {
  /** How long ago the data on the page came, in milliseconds. */
  readonly ageMs: number;
  /** Old, and not because somebody paused it: nothing on the page may be taken for the present. */
  readonly isStale: boolean;
  /** When the data came, in the database's epoch milliseconds; null when that is not known. */
  readonly cameAtMs: number | null;
}

/**
 * How old the data of a page is. Stale: its last read failed, or it is older than {@link STALE_MS}
 * although nobody paused it.
 */
export function useFreshness(read: Read): Freshness {
  const isByHand = useSignal(pause.isPausedByHand);
  const holds = useSignal(pause.holds);
  // By the monotonic clock, from the moment that this page saw it change.
  const [seen, setSeen] = useState<Seen>({ atMs: 0, databaseMs: null });
  const [nowMs, setNowMs] = useState(0);
  useEffect(() => {
    setSeen({ atMs: performance.now(), databaseMs: databaseClock.nowMs() });
    setNowMs(performance.now());
  }, [read.dataUpdatedAt]);
  useEffect(() => {
    const timer = setInterval(() => {
      setNowMs(performance.now());
    }, TICK_MS);
    return () => {
      clearInterval(timer);
    };
  }, []);
  const ageMs = Math.max(0, nowMs - seen.atMs);
  const isPaused = isByHand || holds > 0;
  const isFailing = read.isError || read.failureCount > 0;
  return {
    ageMs,
    isStale: isFailing || (!isPaused && ageMs > STALE_MS),
    cameAtMs: seen.databaseMs,
  };
}

/** The moment at which data came, by the two clocks there are. */
interface Seen {
  readonly atMs: number;
  readonly databaseMs: number | null;
}
