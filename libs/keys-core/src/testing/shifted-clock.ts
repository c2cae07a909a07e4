import { readFile, readdir } from 'node:fs/promises';
import pg from 'pg';
import { onTestFinished } from 'vitest';

const MIGRATIONS = new URL('../../../../prisma/migrations/', import.meta.url);

/**
 * Gives one database a clock that can be stepped, so that the kernel's own SQL meets a database
 * clock which jumps. A function `clock_timestamp` in a schema that is searched before `pg_catalog`
 * adds a shift; the kernel's functions are made again so that they see it. Call it before a store
 * is opened on the database.
 * @returns a function that sets the shift, in milliseconds against the real time.
 */
export async function makeClockShiftable(databaseUrl: string): Promise<(shiftMs: number) => Promise<void>> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  onTestFinished(() => client.end());
  const { rows } = await client.query<{ name: string }>('select current_database() as name');
  await client.query(`
    create schema shifted;
    create table shifted.clock (shift interval not null);
    insert into shifted.clock values (interval '0');
    create function shifted.clock_timestamp() returns timestamptz language sql volatile
      as 'select pg_catalog.clock_timestamp() + shift from shifted.clock';
    alter database "${rows[0]?.name ?? ''}" set search_path = shifted, pg_catalog, public;
    set search_path = shifted, pg_catalog, public;`);
  await client.query((await kernelFunctions()).replaceAll('CREATE FUNCTION', 'CREATE OR REPLACE FUNCTION public.'));
  return async (shiftMs) => {
    await client.query(`update shifted.clock set shift = $1 * interval '1 millisecond'`, [shiftMs]);
  };
}

/** The functions that the migrations make, as they stand there. */
async function kernelFunctions(): Promise<string> {
  const folders = (await readdir(MIGRATIONS, { withFileTypes: true })).filter((entry) => entry.isDirectory());
  const texts = await Promise.all(
    folders.map((folder) => readFile(new URL(`${folder.name}/migration.sql`, MIGRATIONS), 'utf8')),
  );
  return texts
    .flatMap((text) => text.match(/^CREATE FUNCTION [^;]*;/gmu) ?? [])
    .filter((text) => text.includes('clock_timestamp'))
    .join('\n')
    .replaceAll('CREATE FUNCTION ', 'CREATE FUNCTION');
}
