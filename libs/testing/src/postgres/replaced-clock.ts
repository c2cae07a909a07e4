import { connectionOf } from '@leasehold/service-kit/database-url';
import pg from 'pg';

/** A clock that stands in the place of a database's own. */
export interface ReplacedClock {
  /** Sets the value that the definition reads. */
  set(value: number): Promise<void>;
  close(): Promise<void>;
}

/** The definition of a clock that is as far from the real time as its value says, in milliseconds. */
export const SHIFTED_CLOCK = `select real_clock_timestamp() + value * interval '1 millisecond' from shifted.clock`;

/**
 * Puts another function `clock_timestamp` in the place of PostgreSQL's own in one database. The own one keeps
 * working under another name, and the kernel's functions and defaults are created again so that they use
 * the other. Call it before anything else is connected to the database.
 */
export async function replaceClock(
  databaseUrl: string,
  definition: string,
): Promise<ReplacedClock> {
  const client = new pg.Pool({ ...connectionOf(databaseUrl), max: 1 });
  // The database may be stopped, or put back, while nothing is asked of it.
  client.on('error', () => undefined);
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
  return {
    async set(value) {
      await client.query('update shifted.clock set value = $1', [value]);
    },
    close: () => client.end(),
  };
}
