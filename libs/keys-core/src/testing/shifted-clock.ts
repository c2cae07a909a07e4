import { readFile, readdir } from 'node:fs/promises';
import pg from 'pg';
import { onTestFinished } from 'vitest';

const MIGRATIONS = new URL('../../../../prisma/migrations/', import.meta.url);

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
    `select pg_catalog.clock_timestamp() + value * interval '1 millisecond' from shifted.clock`,
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
 * Puts a function `clock_timestamp` into a schema that is searched before `pg_catalog`, and makes
 * the kernel's functions and defaults again so that they see it.
 */
async function replaceClock(
  databaseUrl: string,
  definition: string,
): Promise<(value: number) => Promise<void>> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  onTestFinished(() => client.end());
  const { rows } = await client.query<{ name: string }>('select current_database() as name');
  await client.query(`
    create schema shifted;
    create table shifted.clock (value float8 not null);
    insert into shifted.clock values (0);
    create function shifted.clock_timestamp() returns timestamptz language sql volatile as $$${definition}$$;
    alter database "${rows[0]?.name ?? ''}" set search_path = shifted, pg_catalog, public;
    set search_path = shifted, pg_catalog, public;
    alter table lease_event alter column at set default clock_timestamp();`);
  await client.query(
    (await kernelFunctions()).replaceAll('CREATE FUNCTION', 'CREATE OR REPLACE FUNCTION public.'),
  );
  return async (value) => {
    await client.query('update shifted.clock set value = $1', [value]);
  };
}

/** The functions that the migrations make, as they stand there. */
async function kernelFunctions(): Promise<string> {
  const folders = (await readdir(MIGRATIONS, { withFileTypes: true })).filter((entry) =>
    entry.isDirectory(),
  );
  const texts = await Promise.all(
    folders.map((folder) => readFile(new URL(`${folder.name}/migration.sql`, MIGRATIONS), 'utf8')),
  );
  return texts
    .flatMap((text) => text.match(/^CREATE FUNCTION [^;]*;/gmu) ?? [])
    .filter((text) => text.includes('clock_timestamp'))
    .join('\n')
    .replaceAll('CREATE FUNCTION ', 'CREATE FUNCTION');
}
