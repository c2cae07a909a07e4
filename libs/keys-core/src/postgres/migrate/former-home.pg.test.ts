import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import { withSchema } from '@leasehold/service-kit';
import { aRequest, openKernel } from '../../testing/kernel-fixture.ts';
import { openEmptyDatabase, runSql, type EmptyDatabase } from '../../testing/migration-fixture.ts';
import { findMigrationsDir, migrate } from './migrate.ts';
import { readMigrations } from './migration-files.ts';

const MIGRATIONS = findMigrationsDir();
/** The migrations of the last version whose tables were in `public`. */
const FORMER = [
  ...['20261120000000_kernel', '20261121000000_leases', '20261121000001_event_mark'],
  ...['20261122000000_people', '20261122000001_stats', '20261122000002_bulk'],
  ...['20261122000003_drone_logs', '20261122000004_people_hardening'],
  '20261123000000_reservations',
];

let database: EmptyDatabase;

beforeEach(async () => {
  database = await openEmptyDatabase();
});

/** What the previous version left in a database: its tables, its history, and a lease. */
async function makeFormerInstallation(searchPath = 'public'): Promise<{ leaseId: string }> {
  const leaseId = randomUUID();
  const known = await readMigrations(MIGRATIONS);
  const migrations = FORMER.flatMap((name) => known.filter((one) => one.name === name));
  const history = migrations.map(
    ({ name, checksum }) => `('${randomUUID()}', '${checksum}', '${name}', now(), 1)`,
  );
  await runSql(
    database.url,
    `set search_path = ${searchPath};
     ${migrations.map(({ sql }) => sql).join(';\n')};
     create table _prisma_migrations (
       id varchar(36) primary key not null, checksum varchar(64) not null, finished_at timestamptz,
       migration_name varchar(255) not null, logs text, rolled_back_at timestamptz,
       started_at timestamptz not null default now(), applied_steps_count integer not null default 0
     );
     insert into _prisma_migrations (id, checksum, migration_name, finished_at, applied_steps_count)
     values ${history.join(', ')};
     insert into lease (
       face, namespace, name, lease_id, fencing_token, holder, principal,
       ttl_ms, renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at
     ) values (
       'lease', 'test', 'thing', '${leaseId}', 8999999999999, 'alice', 'token-a', 60000, 1, 2, 3,
       clock_timestamp(), clock_timestamp(), clock_timestamp() + interval '60 s'
     );
     insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor)
     values ('lease', 'test', 'thing', '${leaseId}', 8999999999999, 'granted', 'alice')`,
  );
  return { leaseId };
}

describe('an installation of the previous version', () => {
  test('moves into the schema, with its leases, its sequences and its triggers', async () => {
    const { leaseId } = await makeFormerInstallation();

    await migrate(database.url, MIGRATIONS);

    const { leases } = await openKernel({ databaseUrl: database.url });
    const ref = { leaseId, fencingToken: '8999999999999' };
    const renewed = await leases.renew('lease', { ...ref, principal: 'token-a' });
    expect(renewed.outcome).toBe('renewed');
    const refused = await leases.grant(aRequest({ namespace: 'test', name: 'thing' }));
    expect(refused.outcome).toBe('held');
    const release = { ...ref, actor: 'alice', result: 'ok', detail: null } as const;
    await leases.release('lease', { ...release, principal: 'token-a' });
    const [event] = await runSql(database.url, 'select max(id)::int as id from lease_event');
    expect(event).toEqual({ id: 2 });
    await runSql(database.url, 'delete from lease_event');
    expect(await runSql(database.url, 'select removed_through_id from lease_event_mark')).toEqual([
      { removed_through_id: '2' },
    ]);
  });

  test('leaves only the history behind, so that the previous version makes no new tables', async () => {
    await makeFormerInstallation();
    const before = await runSql(database.url, 'select * from public._prisma_migrations');

    await migrate(database.url, MIGRATIONS);

    expect(await runSql(database.url, 'select * from public._prisma_migrations')).toEqual(before);
    expect(await objectsIn('public')).toEqual(['_prisma_migrations']);
  });

  test('touches no table of another application, whatever its name', async () => {
    await makeFormerInstallation();
    await runSql(
      database.url,
      `create schema app;
       create table app.person (mine text);
       create table app.lease (mine text);
       create table public.theirs (mine text);
       create function public.lease_unexpired() returns int language sql return 1`,
    );

    await migrate(database.url, MIGRATIONS);

    expect(await objectsIn('app')).toEqual(['lease', 'person']);
    expect(await objectsIn('public')).toEqual(['_prisma_migrations', 'lease_unexpired', 'theirs']);
  });

  test('moves as a whole or not at all', async () => {
    await makeFormerInstallation();
    await runSql(database.url, 'drop table public.reservation_pointer');

    await expect(migrate(database.url, MIGRATIONS)).rejects.toMatchObject({
      code: 'internal.error',
    });

    expect(await objectsIn('public')).toContain('lease');
    expect(await objectsIn('leasehold')).toEqual([]);
  });

  test('is found in the schema that its connections searched', async () => {
    await runSql(
      database.url,
      `create schema former; alter role current_user in database ${database.name} set search_path = former`,
    );
    await makeFormerInstallation('former');

    await migrate(database.url, MIGRATIONS);

    expect(await objectsIn('former')).toEqual(['_prisma_migrations']);
    expect(await objectsIn('leasehold')).toContain('lease');
  });

  test('stays where it is if that is the schema that the URL names', async () => {
    await makeFormerInstallation();
    const url = withSchema(database.url, 'public');

    const { applied } = await migrate(url, MIGRATIONS);

    expect(applied).not.toContain('20261120000000_kernel');
    expect(await objectsIn('public')).toContain('schema_migration');
    expect(await runSql(url, 'select holder from lease')).toEqual([{ holder: 'alice' }]);
  });
});

/** Tables and functions, by name. */
async function objectsIn(schema: string): Promise<string[]> {
  const rows = await runSql(
    database.url,
    `select relname::text as name from pg_class c join pg_namespace n on n.oid = relnamespace
     where nspname = '${schema}' and relkind = 'r'
     union all
     select proname::text from pg_proc p join pg_namespace n on n.oid = pronamespace
     where nspname = '${schema}'
     order by name`,
  );
  return rows.map((row) => String(row['name']));
}
