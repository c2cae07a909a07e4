import { replaceClock, SHIFTED_CLOCK } from '@leasehold/testing';
import { onTestFinished } from 'vitest';

/**
 * Gives one database a clock that can be stepped, so that the kernel's own SQL meets a database
 * clock which jumps. Call it before a store is opened on the database.
 * @returns a function that sets the shift, in milliseconds against the real time.
 */
export async function makeClockShiftable(
  databaseUrl: string,
): Promise<(shiftMs: number) => Promise<void>> {
  return clockOf(databaseUrl, SHIFTED_CLOCK);
}

/**
 * Gives one database a clock that stands still, so that a test knows every instant to the
 * millisecond. Call it before a store is opened on the database.
 * @returns a function that sets the time, in epoch milliseconds.
 */
export async function freezeClock(databaseUrl: string): Promise<(atMs: number) => Promise<void>> {
  return clockOf(databaseUrl, 'select to_timestamp(value / 1000) from shifted.clock');
}

async function clockOf(
  databaseUrl: string,
  definition: string,
): Promise<(value: number) => Promise<void>> {
  const clock = await replaceClock(databaseUrl, definition);
  onTestFinished(() => clock.close());
  return (value) => clock.set(value);
}
