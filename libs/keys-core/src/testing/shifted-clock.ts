import { connectionOf } from '@leasehold/service-kit/database-url';
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
  return replaceClock(
    databaseUrl,
    `select real_clock_timestamp() + value * interval '1 millisecond' from shifted.clock`,
  );
}

/**
 * Gives one database a clock that stands still, so that a test knows every instant to the
 * millisecond. Call it before a store is opened on the database.
 * @returns a function that sets the time, in epoch milliseconds.
 */
export async function freezeClock(databaseUrl: string): Promise<(atMs: number) => Promise<void>> {
  return replaceClock(databaseUrl, 'select to_timestamp(value / 1000) from shifted.clock');
}

/**
 * Puts another function `clock_timestamp` in the place of PostgreSQL's own, which keeps working under
 * another name, and creates the kernel's functions and defaults again so that they use it.
 */
async function replaceClock(
  databaseUrl: string,
  definition: string,
): Promise<(value: number) => Promise<void>> {
  const client = new pg.Client(connectionOf(databaseUrl));
  await client.connect();
  onTestFinished(() => client.end());
  // Bodies of functions hold the function itself and not its name: they are created again from their text.
  const { rows: functions } = await client.query<{ text: string }>(
    `select pg_get_functiondef(oid) as text from pg_proc
     where pronamespace = current_schema()::regnamespace`,
  );
  const judging = functions.filter(({ text }) => text.includes('clock_timestamp()'));
  await client.query(`
    create schema shifted;
    create table shifted.clock (value float8 not null);
    insert into shifted.clock values (0);
    alter function pg_catalog.clock_timestamp() rename to real_clock_timestamp;
    create function pg_catalog.clock_timestamp() returns timestamptz language sql volatile as $$${definition}$$;
    alter table lease_event alter column at set default clock_timestamp();
    ${judging.map(({ text }) => `${text};`).join('\n')}`);
  return async (value) => {
    await client.query('update shifted.clock set value = $1', [value]);
  };
}
