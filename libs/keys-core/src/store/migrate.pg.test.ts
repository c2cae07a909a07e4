import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { createTestDatabase, waitUntil, type TestDatabase } from '@leasehold/testing';
import { createDatabase, findMigrationsDir, migrate, migrationStatus } from './migrate.ts';
import { withSchemaEngine } from './migrate/schema-engine.ts';

const MIGRATIONS = findMigrationsDir();

let emptyUrl: string;
let migrated: TestDatabase;
let folder: string;
const dropLater: string[] = [];

beforeEach(async () => {
  migrated = await createTestDatabase();
  const url = new URL(inject('clusterUrl'));
  url.pathname = `/empty_${migrated.name}`;
  emptyUrl = url.href;
  dropLater.push(`empty_${migrated.name}`);
  await createDatabase(emptyUrl);
  folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-migrations-'));
});

afterEach(async () => {
  await migrated.drop();
  await sql(
    inject('clusterUrl'),
    ...dropLater.splice(0).map((name) => `drop database ${name} with (force)`),
  );
  await rm(folder, { recursive: true, force: true });
});

describe('migrate', () => {
  test('brings an empty database to the schema, and finds nothing to do afterwards', async () => {
    const names = (await readdir(MIGRATIONS)).filter((name) => name !== 'migration_lock.toml');

    const first = await migrate(emptyUrl, MIGRATIONS);
    const second = await migrate(emptyUrl, MIGRATIONS);

    expect(first.applied).toEqual(names.sort());
    expect(second.applied).toEqual([]);
    expect(await migrationStatus(emptyUrl, MIGRATIONS)).toEqual({
      applied: names.sort(),
      pending: [],
      unfinished: [],
      unknown: [],
    });
  });

  test('lets one of several that start together do the work, and fails none', async () => {
    const results = await Promise.all([1, 2, 3, 4].map(() => migrate(emptyUrl, MIGRATIONS)));

    const workers = results.filter(({ applied }) => applied.length > 0);
    expect(workers).toHaveLength(1);
  });

  test('tries again when a table is locked, and delays nobody for longer than a second', async () => {
    const dir = await withMigration(
      '20990101000000_more',
      'alter table lease add column extra text;',
    );
    const holder = await connect(migrated.url);
    await holder.query('begin');
    await holder.query('lock table lease in access share mode');

    const work = migrate(migrated.url, dir);
    await waitUntil(() => hasLockWaiter(migrated.url), {
      what: 'the migration to wait for the lock',
    });
    const renewalMs = await timed(() => sql(migrated.url, 'select count(*) from lease'));
    await holder.query('rollback');
    await holder.end();

    expect((await work).applied).toEqual(['20990101000000_more']);
    expect(renewalMs).toBeLessThan(2_000);
  });

  test('applies a migration as a whole or not at all, and names what is wrong', async () => {
    const dir = await withMigration(
      '20990101000000_broken',
      'create table half (id int); -- a comment; with a semicolon\nselect no_such_function();',
    );

    await expect(migrate(migrated.url, dir)).rejects.toThrow(/no_such_function/);

    const half = await sql(migrated.url, `select to_regclass('half') as found`);
    expect(half.rows).toEqual([{ found: null }]);
  });

  test('goes on after a process was killed in the middle of a migration', async () => {
    const name = '20990101000000_more';
    const dir = await withMigration(name, 'create table more (id int);');
    await sql(
      migrated.url,
      `insert into _prisma_migrations (id, checksum, migration_name) values ('cut-off', 'none', '${name}')`,
    );

    expect((await migrationStatus(migrated.url, dir)).unfinished).toEqual([name]);
    expect((await migrate(migrated.url, dir)).applied).toEqual([name]);
    expect((await migrationStatus(migrated.url, dir)).unfinished).toEqual([]);
  });

  test('reports migrations of a newer version as unknown', async () => {
    const status = await migrationStatus(migrated.url, await emptyMigrations());

    expect(status.unknown).toEqual((await migrationStatus(migrated.url, MIGRATIONS)).applied);
  });

  test('leaves no connection behind', async () => {
    await migrate(emptyUrl, MIGRATIONS);

    const name = new URL(emptyUrl).pathname.slice(1);
    const none = await waitUntil(async () => {
      const { rows } = await sql(
        migrated.url,
        `select count(*)::int as count from pg_stat_activity where datname = '${name}'`,
      );
      return (rows as { count: number }[])[0]?.count === 0;
    });
    expect(none).toBe(true);
  });

  test('says that the database cannot be reached', async () => {
    await expect(migrate('postgres://nobody@127.0.0.1:1/none', MIGRATIONS)).rejects.toMatchObject({
      code: 'store.unavailable',
    });
  });
});

test('the migrations make the tables, columns, keys and indexes of the Prisma schema', async () => {
  await applySchemaTo(emptyUrl);

  const made = await shapeOf(migrated.url);
  const described = await shapeOf(emptyUrl);

  expect(made.filter((line) => !described.includes(line))).toEqual([]);
  expect(described.filter((line) => !made.includes(line))).toEqual([]);
  expect(made.length).toBeGreaterThan(50);
});

/** What Prisma itself would make of its schema, with nothing of ours added. */
async function applySchemaTo(url: string): Promise<void> {
  const schemaDir = path.join(MIGRATIONS, '..', 'schema');
  const files = await Promise.all(
    (await readdir(schemaDir)).map(async (name) => ({
      path: name,
      content: await readFile(path.join(schemaDir, name), 'utf8'),
    })),
  );
  const datamodels = files.map((file): [string, string] => [file.path, file.content]);
  const script = await withSchemaEngine(
    { databaseUrl: url, datamodels, lockTimeoutMs: 1_000 },
    (engine) =>
      engine.diff({
        from: { tag: 'empty' },
        to: { tag: 'schemaDatamodel', files },
        script: true,
        exitCode: null,
        filters: { externalTables: [], externalEnums: [] },
      }),
  );
  await sql(url, script.stdout ?? '');
}

/**
 * Every column, key and index as a line of text. Prisma cannot say collations, checks, partial indexes
 * and indexes of expressions.
 */
async function shapeOf(url: string): Promise<string[]> {
  const { rows } = await sql(
    url,
    `select format('column %I.%I %s null=%s default=%s',
                   table_name, column_name, udt_name || coalesce(datetime_precision::text, ''),
                   is_nullable, column_default) as line
     from information_schema.columns
     where table_schema = 'public' and table_name <> '_prisma_migrations'
     union all
     select 'index ' || replace(indexdef, ' WITH (fillfactor=70)', '')
     from pg_indexes
     where schemaname = 'public' and tablename <> '_prisma_migrations'
       and indexdef not like '% WHERE %' and indexdef !~ ' USING [a-z]+ \\([^)]*\\('
     union all
     select format('key %s %s', conrelid::regclass, pg_get_constraintdef(oid))
     from pg_constraint
     where connamespace = 'public'::regnamespace and contype in ('p', 'u', 'f')
       and conrelid::regclass::text <> '_prisma_migrations'
     order by line`,
  );
  return (rows as { line: string }[]).map(({ line }) => line);
}

async function emptyMigrations(): Promise<string> {
  await cp(path.join(MIGRATIONS, 'migration_lock.toml'), path.join(folder, 'migration_lock.toml'));
  return folder;
}

async function withMigration(name: string, text: string): Promise<string> {
  await cp(MIGRATIONS, folder, { recursive: true });
  await mkdir(path.join(folder, name));
  await writeFile(path.join(folder, name, 'migration.sql'), text);
  return folder;
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return client;
}

async function sql(url: string, ...statements: string[]): Promise<pg.QueryResult> {
  const client = await connect(url);
  try {
    let result = await client.query('select');
    for (const statement of statements) result = await client.query(statement);
    return result;
  } finally {
    await client.end();
  }
}

async function hasLockWaiter(url: string): Promise<boolean> {
  const { rows } = await sql(
    url,
    `select count(*)::int as count from pg_locks where not granted and locktype = 'relation'`,
  );
  return (rows as { count: number }[])[0]?.count !== 0;
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}
