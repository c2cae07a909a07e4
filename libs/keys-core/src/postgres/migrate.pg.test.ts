import { cp, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { connectionOf, withSchema } from '@leasehold/service-kit';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { openEmptyDatabase, runSql, type EmptyDatabase } from '../testing/migration-fixture.ts';
import { prismaScript } from '../testing/prisma-engine.ts';
import { findMigrationsDir, migrate, migrationStatus, planMigration } from './migrate.ts';

const MIGRATIONS = findMigrationsDir();
const LATE = '20990101000000_more';

let database: EmptyDatabase;
let folder: string;

beforeEach(async () => {
  database = await openEmptyDatabase();
  folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-migrations-'));
});

afterEach(async () => {
  await rm(folder, { recursive: true, force: true, maxRetries: 10 });
});

describe('migrate', () => {
  test('brings an empty database to the schema, and finds nothing to do afterwards', async () => {
    const names = (await readdir(MIGRATIONS)).sort();

    const first = await migrate(database.url, MIGRATIONS);
    const second = await migrate(database.url, MIGRATIONS);

    expect(first.applied).toEqual(names);
    expect(second.applied).toEqual([]);
    expect(await migrationStatus(database.url, MIGRATIONS)).toEqual({
      schema: 'leasehold',
      applied: names,
      pending: [],
      newer: [],
      changed: [],
    });
  });

  test('can be planned: what would be applied, with its notes, and nothing is changed', async () => {
    const names = (await readdir(MIGRATIONS)).sort();
    const all = await planMigration(database.url, MIGRATIONS);
    expect(all.planned.map(({ name }) => name)).toEqual(names);

    await migrate(database.url, MIGRATIONS);
    expect(await planMigration(database.url, MIGRATIONS)).toMatchObject({ planned: [] });
    const text =
      '-- A note,\n-- and more.\n-- older versions may start\ncreate table more (id int);';
    const dir = await withMigration(text);

    expect(await planMigration(database.url, dir)).toEqual({
      schema: 'leasehold',
      planned: [{ name: LATE, olderMayStart: true, notes: 'A note,\nand more.', sql: text }],
    });
    expect((await migrationStatus(database.url, dir)).pending).toEqual([LATE]);
  });

  test('several runs at the same time apply each migration once, and none of them fails', async () => {
    const names = (await readdir(MIGRATIONS)).sort();

    const results = await Promise.all([1, 2, 3, 4].map(() => migrate(database.url, MIGRATIONS)));

    expect(results.flatMap(({ applied }) => applied).sort()).toEqual(names);
  });

  test('retries when a table is locked, and delays nobody for longer than a second', async () => {
    await migrate(database.url, MIGRATIONS);
    const dir = await withMigration('alter table lease add column extra text;');
    const holder = await connect();
    await holder.query('begin');
    await holder.query('lock table lease in access share mode');

    const work = migrate(database.url, dir);
    await waitUntil(() => hasLockWaiter(), { what: 'the migration to wait for the lock' });
    // The lock that the migration waits for is held until this has been answered.
    await runSql(database.url, 'select count(*) from lease');
    await holder.query('rollback');
    await holder.end();

    expect((await work).applied).toEqual([LATE]);
  });

  test('applies a migration as a whole or not at all, and names it and the cause', async () => {
    await migrate(database.url, MIGRATIONS);
    const dir = await withMigration(
      'create table half (id int); -- a comment; with a semicolon\nselect no_such_function();',
    );

    await expect(migrate(database.url, dir)).rejects.toMatchObject({
      code: 'internal.error',
      message: expect.stringMatching(/20990101000000_more.*no_such_function/u) as string,
    });

    expect(await runSql(database.url, `select to_regclass('half') as found`)).toEqual([
      { found: null },
    ]);
  });

  test('continues after a process was killed in the middle of a migration', async () => {
    await migrate(database.url, MIGRATIONS);
    const dir = await withMigration('create table more (id int); lock table lease;');
    const holder = await connect();
    await holder.query('begin');
    await holder.query('lock table lease in access share mode');

    const killed = migrate(database.url, dir).catch((error: unknown) => error);
    // It gives up its wait after a second, and waits again: found and killed in one step.
    await waitUntil(
      async () => {
        const { rowCount } = await holder.query(
          `select pg_terminate_backend(l.pid) from pg_locks l join pg_database d on d.oid = l.database
           where not l.granted and l.locktype = 'relation' and d.datname = current_database()`,
        );
        return rowCount === 1;
      },
      { what: 'the migration to wait for the lock' },
    );
    await holder.query('rollback');
    await holder.end();

    expect(await killed).toMatchObject({ code: 'store.unavailable' });
    expect((await migrate(database.url, dir)).applied).toEqual([LATE]);
  });

  test('leaves no connection behind', async () => {
    await migrate(database.url, MIGRATIONS);

    const none = await waitUntil(async () => {
      const [row] = await database.administrate(
        `select count(*)::int as count from pg_stat_activity where datname = '${database.name}'`,
      );
      return row?.['count'] === 0;
    });
    expect(none).toBe(true);
  });

  test('reports that the database cannot be reached', async () => {
    await expect(migrate('postgres://nobody@127.0.0.1:1/none', MIGRATIONS)).rejects.toMatchObject({
      code: 'store.unavailable',
    });
  });
});

describe('a database that does not fit this version is left unchanged', () => {
  test('a newer version migrated it: refused, unless that version allows older ones to start', async () => {
    await migrate(database.url, await withMigration('create table more (id int);'));

    await expect(migrate(database.url, MIGRATIONS)).rejects.toMatchObject({
      code: 'store.schema_newer',
      message: expect.stringContaining(LATE) as string,
    });
    expect((await migrationStatus(database.url, MIGRATIONS)).newer).toEqual([LATE]);

    await runSql(database.url, 'update schema_migration set older_may_start = true');
    expect(await migrate(database.url, MIGRATIONS)).toEqual({ applied: [] });
  });

  test('a migration allows older versions to start by a line of its own', async () => {
    const text = '-- A note.\n-- older versions may start\ncreate table more (id int);';

    await migrate(database.url, await withMigration(text));

    expect(await migrate(database.url, MIGRATIONS)).toEqual({ applied: [] });
    expect((await migrationStatus(database.url, MIGRATIONS)).newer).toEqual([]);
  });

  test('a migration was applied with another text: refused, with its name', async () => {
    await migrate(database.url, await withMigration('create table more (id int);'));
    await writeFile(path.join(folder, LATE, 'migration.sql'), 'create table more (id bigint);');

    await expect(migrate(database.url, folder)).rejects.toMatchObject({
      code: 'store.schema_changed',
      message: expect.stringContaining(LATE) as string,
    });
  });

  test('a version before the first release made it: refused, with advice to name another one', async () => {
    await migrate(database.url, MIGRATIONS);
    await runSql(
      database.url,
      `insert into schema_migration (name, checksum, applied_by, older_may_start)
       values ('20260101000000_draft', 'x', '0.0.1', true)`,
    );

    await expect(migrate(database.url, MIGRATIONS)).rejects.toMatchObject({
      code: 'store.schema_changed',
      message: expect.stringMatching(/20260101000000_draft.*LEASEHOLD_SCHEMA/u) as string,
    });
  });

  test('the schema contains tables of another application: refused, with advice to name another one', async () => {
    await runSql(database.url, 'create schema leasehold', 'create table leasehold.theirs (id int)');

    await expect(migrate(database.url, MIGRATIONS)).rejects.toMatchObject({
      code: 'store.schema_foreign',
      message: expect.stringMatching(/theirs.*LEASEHOLD_SCHEMA/u) as string,
    });

    expect(await tablesIn('leasehold')).toEqual(['theirs']);
  });

  test('the role lacks a permission: refused with a clear message, and nothing is made', async () => {
    await database.administrate(`create role ${database.name}_poor login password 'x'`);
    database.dropLater(`drop role ${database.name}_poor`);
    const url = new URL(database.url);
    [url.username, url.password] = [`${database.name}_poor`, 'x'];

    await expect(migrate(url.href, MIGRATIONS)).rejects.toMatchObject({
      code: 'store.not_permitted',
      message: expect.stringContaining('permission denied') as string,
    });

    expect(await tablesIn('leasehold')).toEqual([]);
  });
});

describe('a guest in a database', () => {
  test('makes nothing outside of its schema, whatever else the database contains', async () => {
    const theirs = ['person', 'audit', 'drone', '_prisma_migrations'];
    await runSql(database.url, ...theirs.map((name) => `create table public.${name} (mine text)`));

    await migrate(database.url, MIGRATIONS);

    expect(await tablesIn('public')).toEqual([...theirs].sort());
    expect(await tablesIn('leasehold')).toContain('person');
    const outside = await runSql(
      database.url,
      `select p.proname from pg_proc p where p.pronamespace = 'public'::regnamespace`,
    );
    expect(outside).toEqual([]);
  });

  test('uses the schema that the URL names', async () => {
    await migrate(withSchema(database.url, 'locks'), MIGRATIONS);

    expect(await tablesIn('locks')).toContain('lease');
    expect(await tablesIn('leasehold')).toEqual([]);
  });

  test('uses an empty schema that was made for it', async () => {
    await runSql(database.url, 'create schema leasehold');

    await migrate(database.url, MIGRATIONS);

    expect(await tablesIn('leasehold')).toContain('lease');
  });

  test('has functions that use its own tables, whatever the search path of their caller', async () => {
    await migrate(database.url, MIGRATIONS);

    const unpinned = await runSql(
      database.url,
      `select p.proname
       from pg_proc p join pg_language l on l.oid = p.prolang
       where p.pronamespace = 'leasehold'::regnamespace
         -- The body of an SQL function that was parsed when it was made holds no names.
         and p.prosqlbody is null
         and not coalesce(p.proconfig @> array['search_path=leasehold, pg_temp'], false)`,
    );

    expect(unpinned).toEqual([]);
  });
});

test('the migrations make the tables, columns, keys and indexes of the Prisma schema', async () => {
  await migrate(database.url, MIGRATIONS);
  const script = await prismaScript(path.join(MIGRATIONS, '..', 'schema'), database.url);
  await runSql(database.url, `create schema described; set search_path = described; ${script}`);

  const made = await shapeOf('leasehold');
  const described = await shapeOf('described');

  expect(made.filter((line) => !described.includes(line))).toEqual([]);
  expect(described.filter((line) => !made.includes(line))).toEqual([]);
  expect(made.length).toBeGreaterThan(50);
});

/**
 * Every column, key and index of a schema as a line of text. Prisma cannot express collations, checks,
 * partial indexes and indexes of expressions.
 */
async function shapeOf(schema: string): Promise<string[]> {
  const rows = await runSql(
    database.url,
    `set search_path = ${schema};
     select format('column %I.%I %s null=%s default=%s',
                   table_name, column_name, udt_name || coalesce(datetime_precision::text, ''),
                   is_nullable, column_default) as line
     from information_schema.columns
     where table_schema = current_schema() and table_name <> 'schema_migration'
     union all
     select 'index ' || replace(
       replace(indexdef, ' WITH (fillfactor=70)', ''), ' ON ' || current_schema() || '.', ' ON '
     )
     from pg_indexes
     where schemaname = current_schema() and tablename <> 'schema_migration'
       and indexdef not like '% WHERE %' and indexdef !~ ' USING [a-z]+ \\([^)]*\\('
     union all
     select format('key %s %s', conrelid::regclass, pg_get_constraintdef(oid))
     from pg_constraint
     where connamespace = current_schema()::regnamespace and contype in ('p', 'u', 'f')
       and conrelid::regclass::text <> 'schema_migration'
     order by line`,
  );
  return rows.map((row) => String(row['line']));
}

async function tablesIn(schema: string): Promise<string[]> {
  const rows = await runSql(
    database.url,
    `select table_name::text as name from information_schema.tables
     where table_schema = '${schema}' order by name`,
  );
  return rows.map((row) => String(row['name']));
}

/** All migrations, and one more. */
async function withMigration(text: string): Promise<string> {
  await cp(MIGRATIONS, folder, { recursive: true });
  await mkdir(path.join(folder, LATE));
  await writeFile(path.join(folder, LATE, 'migration.sql'), text);
  return folder;
}

async function connect(): Promise<pg.Client> {
  const client = new pg.Client(connectionOf(database.url));
  await client.connect();
  return client;
}

async function hasLockWaiter(): Promise<boolean> {
  const rows = await database.administrate(
    `select from pg_locks l join pg_database d on d.oid = l.database
     where not l.granted and l.locktype = 'relation' and d.datname = '${database.name}'`,
  );
  return rows.length > 0;
}
