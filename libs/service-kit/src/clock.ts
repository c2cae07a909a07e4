import { readFileSync } from 'node:fs';
import os from 'node:os';
import TinyQueue from 'tinyqueue';

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
 * The clock of this machine. All callbacks share one timer. Without any it keeps no process alive, and is gone at
 * its next tick: a service that makes one call after the other begins no timer for each.
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

  const isUsed = (): boolean => listeners.size > 0 || appointments.count > 0;

  const begin = (): void => {
    if (timer === undefined) timer = setInterval(tick, TICK_MS);
    else if (!timer.hasRef()) timer.ref();
  };

  const end = (): void => {
    if (!isUsed()) timer?.unref();
  };

  const tick = (): void => {
    const tickMs = nowMs();
    for (const listener of [...listeners]) {
      if (listeners.has(listener)) callApart(() => listener(tickMs));
    }
    for (const appointment of appointments.takeDue(tickMs)) {
      // One of the others may have cancelled it.
      const fn = appointments.end(appointment);
      if (fn !== undefined) callApart(fn);
    }
    if (isUsed()) return;
    clearInterval(timer);
    timer = undefined;
  };

  const onTick = (fn: (nowMs: number) => void): (() => void) => {
    // Wrapped, so that the same function may be given twice.
    const listener = (tickMs: number): void => fn(tickMs);
    listeners.add(listener);
    begin();
    return () => {
      listeners.delete(listener);
      end();
    };
  };

  const at = (atMs: number, fn: () => void): (() => void) => {
    const appointment = appointments.add(atMs, fn);
    begin();
    return () => {
      if (appointments.end(appointment) !== undefined) end();
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

// Time since boot, suspend included, without a system call for each reading.
//
// Linux has this as CLOCK_BOOTTIME, which Node reaches only through the file `/proc/uptime`: as slow as
// everything else that a grant costs its caller. Two other clocks are read in nanoseconds, without the
// kernel: one that is monotonic and stops in suspend, and the wall clock, which does not. The kernel adds
// the time of a suspend to the wall clock and to the time since boot in one step. So:
//
// time since boot = monotonic clock + the time spent in suspend
//
// and the second part is read again, from the file, as soon as the wall clock and the monotonic one have
// moved apart. That is checked with every reading, so that no reading after a suspend misses it, even
// in the same turn of the event loop. A wall clock that is set makes one more reading of the file.

/** What the time since boot is made of, in milliseconds. A test passes clocks of its own. */
export interface MachineClocks {
  /** The time since boot: exact or too small by up to 10 ms. A file is read. */
  bootMs(): number;
  /** Goes as fast as `bootMs`, but stops in suspend. */
  monotonicMs(): number;
  /** May be set, slewed by 500 ppm, and goes on in suspend. */
  wallMs(): number;
}

/** The clocks are further apart than this after a suspend that matters, and after nothing but that or a step. */
const APART_MS = 5;
/** If the wall clock was set back by as much as the machine slept, the suspend is seen this much later. */
const FRESH_MS = 1_000;

/** A process that is interrupted during a reading of the file gets one that is too small: so it reads thrice. */
const READS_AT_ONCE = 3;

/**
 * The readings of two processes of a machine differ by less than this: the file goes in steps of 10 ms.
 * One of them may therefore be behind a reading that the other has sent to it.
 */
export const BOOT_READINGS_APART_MS = 20;

const MACHINE_CLOCKS: MachineClocks = {
  bootMs: () => os.uptime() * 1_000,
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
};

/** @returns a function that reads the time since boot, in milliseconds. */
export function createBootReader(clocks: MachineClocks = MACHINE_CLOCKS): () => number {
  let sleptMs = -Infinity;
  let freshAtMs = -Infinity;
  let wallAheadMs = NaN;
  return () => {
    const monotonicMs = clocks.monotonicMs();
    const aheadMs = clocks.wallMs() - monotonicMs;
    // Written so that the first comparison, with NaN, is one of a suspend.
    const isAsBefore = Math.abs(aheadMs - wallAheadMs) <= APART_MS;
    if (!isAsBefore || monotonicMs - freshAtMs > FRESH_MS) {
      // Each reading of the file is exact or too small, so the greatest is the best of them.
      for (let count = 0; count < READS_AT_ONCE; count += 1) {
        sleptMs = Math.max(sleptMs, clocks.bootMs() - clocks.monotonicMs());
      }
      freshAtMs = monotonicMs;
      wallAheadMs = aheadMs;
    }
    return monotonicMs + sleptMs;
  };
}

// What is due at a moment, in the order of the moments.

export interface Appointment<What> {
  readonly atMs: number;
  /** Undefined once it is over. */
  readonly what: What | undefined;
}

/** As the queue has it. */
interface Entry<What> {
  readonly atMs: number;
  what: What | undefined;
}

/** So many that are over may be left in the queue. */
const LEFT_COUNT_MAX = 1_000;

/** A tick costs what is due, however many others there are. */
export class Appointments<What> {
  #openCount = 0;
  #queue = queueOf<What>([]);

  /** How many are neither over nor cancelled. */
  get count(): number {
    return this.#openCount;
  }

  add(atMs: number, what: What): Appointment<What> {
    const entry: Entry<What> = { atMs, what };
    this.#openCount += 1;
    this.#queue.push(entry);
    return entry;
  }

  /** Whether {@link takeDue} may have something to take out. */
  isDue(nowMs: number): boolean {
    const next = this.#queue.peek();
    return next !== undefined && next.atMs <= nowMs;
  }

  /** Takes out all up to this moment. Each is open until {@link end}. */
  takeDue(nowMs: number): Appointment<What>[] {
    const due: Appointment<What>[] = [];
    for (let next = this.#queue.peek(); next !== undefined && next.atMs <= nowMs;) {
      if (next.what !== undefined) due.push(next);
      this.#queue.pop();
      next = this.#queue.peek();
    }
    return due;
  }

  /**
   * What is cancelled stays in the queue until most of it is of that kind, without what it was about: most
   * appointments are timeouts of calls that are answered, and their callers must not stay in memory.
   * @returns what it was about, if it was open.
   */
  end(appointment: Appointment<What>): What | undefined {
    const entry: Entry<What> = appointment;
    const { what } = entry;
    if (what === undefined) return undefined;
    entry.what = undefined;
    this.#openCount -= 1;
    if (this.#queue.length > 2 * this.#openCount + LEFT_COUNT_MAX) {
      this.#queue = queueOf(this.#queue.data.filter(isOpen));
    }
    return what;
  }
}

function isOpen({ what }: Entry<unknown>): boolean {
  return what !== undefined;
}

function queueOf<What>(entries: Entry<What>[]): TinyQueue<Entry<What>> {
  return new TinyQueue(entries, (a, b) => a.atMs - b.atMs);
}
