import { readFileSync } from 'node:fs';
import { Appointments } from './appointments.ts';
import { createBootReader } from './boot-reader.ts';

export { BOOT_READINGS_APART_MS } from './boot-reader.ts';

/**
 * The longest time between two readings of the clock. Timers of the runtime stop while the machine
 * sleeps. A tick that reads a clock that does not stop is late by at most one tick.
 */
export const TICK_MS = 50;

/** A monotonic clock of this machine that goes on in suspend, in milliseconds. */
export interface TickingClock {
  /** The reading now; never decreases. */
  nowMs(): number;
  /** Calls `fn` once when the clock has reached `atMs`. @returns a function that cancels it. */
  at(atMs: number, fn: () => void): () => void;
  /** Calls `fn` at every tick. @returns a function that ends it. */
  onTick(fn: (nowMs: number) => void): () => void;
}

/**
 * Identifies the present boot of this machine: clock readings from another boot mean nothing.
 * Undefined if the system does not report it.
 */
export function readBootId(): string | undefined {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return undefined;
  }
}

/**
 * The clock of this machine. All callbacks share one timer, which exists only while there are any.
 * A callback that throws does not stop the others; its error becomes an uncaught exception.
 * `readMs` is the reading; a test passes one that is fast, slow or far ahead.
 */
export function createBootClock(readMs: () => number = createBootReader()): TickingClock {
  const listeners = new Set<(nowMs: number) => void>();
  const appointments = new Appointments<() => void>();
  let timer: NodeJS.Timeout | undefined;
  let lastMs = -Infinity;

  // A virtualised reading may step back; what is given out never does.
  const nowMs = (): number => (lastMs = Math.max(lastMs, readMs()));

  const stopIfUnused = (): void => {
    if (listeners.size > 0 || appointments.count > 0) return;
    clearInterval(timer);
    timer = undefined;
  };

  const tick = (): void => {
    const tickMs = nowMs();
    for (const listener of [...listeners]) {
      if (listeners.has(listener)) callApart(() => listener(tickMs));
    }
    for (const appointment of appointments.takeDue(tickMs)) {
      // One of the others may have cancelled it.
      if (appointments.end(appointment)) callApart(appointment.what);
    }
    stopIfUnused();
  };

  const onTick = (fn: (nowMs: number) => void): (() => void) => {
    // Wrapped, so that the same function may be given twice.
    const listener = (tickMs: number): void => fn(tickMs);
    listeners.add(listener);
    timer ??= setInterval(tick, TICK_MS);
    return () => {
      listeners.delete(listener);
      stopIfUnused();
    };
  };

  const at = (atMs: number, fn: () => void): (() => void) => {
    const appointment = appointments.add(atMs, fn);
    timer ??= setInterval(tick, TICK_MS);
    return () => {
      if (appointments.end(appointment)) stopIfUnused();
    };
  };

  return { nowMs, at, onTick };
}

function callApart(fn: () => void): void {
  try {
    fn();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
