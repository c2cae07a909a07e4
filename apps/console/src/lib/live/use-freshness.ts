'use client';

import { useEffect, useState } from 'react';
import { useSignal } from '../use-signal.ts';
import { pause } from './live-state.ts';

/** From this age on the data on a page is called stale, whatever the stream says. */
export const STALE_MS = 12_000;
const TICK_MS = 500;

export interface Freshness {
  /** How long ago the data on the page came, in milliseconds. */
  readonly ageMs: number;
  /** Old, and not because somebody paused it: nothing on the page may be taken for the present. */
  readonly isStale: boolean;
}

/**
 * How old the data of a page is. Stale: its last read failed, or it is older than {@link STALE_MS}
 * although nobody paused it.
 */
export function useFreshness(read: {
  readonly dataUpdatedAt: number;
  readonly isError: boolean;
  readonly failureCount: number;
}): Freshness {
  const isByHand = useSignal(pause.isPausedByHand);
  const holds = useSignal(pause.holds);
  // By the monotonic clock, from the moment that this page saw it change.
  const [seen, setSeen] = useState({ updatedAt: 0, atMs: 0 });
  const [nowMs, setNowMs] = useState(0);
  useEffect(() => {
    setSeen({ updatedAt: read.dataUpdatedAt, atMs: performance.now() });
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
  return { ageMs, isStale: isFailing || (!isPaused && ageMs > STALE_MS) };
}
