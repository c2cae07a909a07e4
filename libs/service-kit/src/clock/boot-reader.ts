/**
 * Time since boot, suspend included, without a system call for each reading.
 *
 * Linux has this as CLOCK_BOOTTIME, which Node reaches only through the file `/proc/uptime`: as slow as
 * everything else that a grant costs its caller. Two other clocks are read in nanoseconds, without the
 * kernel: one that is monotonic and stops in suspend, and the wall clock, which does not. The kernel adds
 * the time of a suspend to the wall clock and to the time since boot in one step. So:
 *
 *   time since boot = monotonic clock + the time spent in suspend
 *
 * and the second part is read again, from the file, as soon as the wall clock and the monotonic one have
 * moved apart. That is checked with every reading, so that no reading after a suspend misses it, even
 * in the same turn of the event loop. A wall clock that is set makes one more reading of the file.
 */
import os from 'node:os';

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
