import { createTestDatabase, replaceClock, SHIFTED_CLOCK } from '@leasehold/testing';
import pg from 'pg';
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

/** How much slower than the real time: a place in line lasts for 25 s, a grant that is not confirmed for 45 s. */
const SLOWDOWN = 50;

/** Defaults hold the function itself and not its name. */
const SET_DEFAULTS = `
  do $$
  declare
    place record;
  begin
    for place in
      select d.adrelid::regclass as tab, a.attname as col
      from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
      where pg_get_expr(d.adbin, d.adrelid) = 'real_clock_timestamp()'
    loop
      execute format('alter table %s alter column %I set default clock_timestamp()', place.tab, place.col);
    end loop;
  end $$`;

/**
 * A database whose clock is slow, for tests in which nothing may lapse while the machine is held up. Timers of the
 * server and of this process are as quick as ever; what happens soon after something else has the same time.
 * @returns its address.
 */
export async function createSlowDatabase(): Promise<string> {
  const { url } = await createTestDatabase();
  const start = `to_timestamp(${String(Date.now() / 1_000)})`;
  const slow = `${start} + (real_clock_timestamp() - ${start}) / ${String(SLOWDOWN)}`;
  // In whole milliseconds, as times are stored: what is rounded up would be ahead of it for as long as many statements take.
  await clockOf(url, `select date_trunc('milliseconds', ${slow})`);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(SET_DEFAULTS);
  await client.end();
  return url;
}

async function clockOf(
  databaseUrl: string,
  definition: string,
): Promise<(value: number) => Promise<void>> {
  const clock = await replaceClock(databaseUrl, definition);
  onTestFinished(() => clock.close());
  return (value) => clock.set(value);
}
