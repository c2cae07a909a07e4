import os from 'node:os';
import type { Clock } from '@leasehold/keys-core';

/**
 * The longest time between two readings that deadlines are kept by. Timers of the runtime stand
 * still while the machine sleeps; a tick that reads a clock which does not is late by one tick only.
 */
export const TICK_MS = 50;

export interface TickingClock extends Clock {
  /** Calls `fn` at every tick until the returned function is called. */
  onTick(fn: (nowMs: number) => void): () => void;
}

/** Reads the time since boot, suspend included: Linux CLOCK_BOOTTIME, in steps of 10 ms. */
function readBootMs(): number {
  return os.uptime() * 1_000;
}

/**
 * The clock of this machine. `readMs` is what it reads: a test passes a reading that runs fast,
 * slow or far ahead.
 */
export function createBootClock(readMs: () => number = readBootMs): TickingClock {
  let lastMs = 0;
  // A virtualised /proc/uptime may step; a reading never goes back all the same.
  const nowMs = (): number => (lastMs = Math.max(lastMs, readMs()));

  const onTick = (fn: (nowMs: number) => void): (() => void) => {
    const timer = setInterval(() => {
      fn(nowMs());
    }, TICK_MS);
    return () => {
      clearInterval(timer);
    };
  };

  const at = (atMs: number, fn: () => void): (() => void) => {
    const cancel = onTick((tickMs) => {
      if (tickMs < atMs) return;
      cancel();
      fn();
    });
    return cancel;
  };

  return { nowMs, at, onTick };
}
