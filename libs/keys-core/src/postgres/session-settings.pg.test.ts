/** What the connections of a store set, whatever is set for the database. */
import { createTestDatabase, setOddly, waitUntil } from '@leasehold/testing';
import { expect, test } from 'vitest';
import { SESSION_SETTINGS } from '@leasehold/service-kit/session-settings';
import { aRequest, granted, openKernel } from '../testing/kernel-fixture.ts';
import { openEmptyDatabase, runSql } from '../testing/migration-fixture.ts';
import { findMigrationsDir, migrate, migrationStatus } from './migrate.ts';
import { connectionProblems, readDatabaseSettings } from './database-settings.ts';
import type { Pool } from './pool.ts';

/** Each pool has these for itself. */
const OF_A_POOL = ['statement_timeout', 'idle_in_transaction_session_timeout'];
const OF_TRANSITIONS = ['plan_cache_mode', 'enable_seqscan', 'lock_timeout'];

async function settingsOf(pool: Pool<never>, names: readonly string[]) {
  const rows = await pool.$queryRaw<{ name: string; setting: string }[]>`
    select name, setting from pg_settings where name = any (${[...names]}::text[]) order by name`;
  return Object.fromEntries(rows.map(({ name, setting }) => [name, setting]));
}

async function anOddDatabase(): Promise<string> {
  const { url } = await createTestDatabase();
  await setOddly(url);
  return url;
}

test('every connection of a store has the settings that its statements need, whatever the database says', async () => {
  const { store } = await openKernel({ databaseUrl: await anOddDatabase() });
  const { general, transitions, renewals, vital, slowLane, reads, guests } = store;
  const pools = { general, transitions, renewals, vital, slowLane, reads, guests };

  for (const [name, pool] of Object.entries(pools)) {
    const isPlanned = pool === transitions || pool === renewals;
    const own = isPlanned ? [...OF_A_POOL, ...OF_TRANSITIONS] : OF_A_POOL;
    const expected = Object.entries(SESSION_SETTINGS).filter(([key]) => !own.includes(key));
    const names = expected.map(([key]) => key);
    expect(await settingsOf(pool as Pool<never>, names), name).toEqual(
      Object.fromEntries(expected.sort(([a], [b]) => (a < b ? -1 : 1))),
    );
  }
  const settings = await readDatabaseSettings(general);
  expect(connectionProblems(settings, 'leasehold')).toEqual([]);
  expect(settings).toMatchObject({ synchronousCommit: 'on', isReadOnly: false });
});

test('a connection that listens stays, although the database ends idle sessions', async () => {
  const errors: unknown[] = [];
  const databaseUrl = await anOddDatabase();
  const { store } = await openKernel({
    databaseUrl,
    onBackgroundError: (error) => errors.push(error),
  });
  const listening = (): Promise<{ pid: number }[]> =>
    store.general.$queryRaw<{ pid: number }[]>`
      select pid from pg_stat_activity
      where datname = current_database() and query like 'listen %' and state = 'idle'
        and state_change < clock_timestamp() - interval '100 milliseconds'`;

  await waitUntil(async () => (await listening()).length === 1);

  expect(errors).toEqual([]);
});

test('a database is migrated whatever is set for it', async () => {
  const { url } = await openEmptyDatabase();
  await setOddly(url);

  const { applied } = await migrate(url, findMigrationsDir());

  expect(applied.length).toBeGreaterThan(0);
  expect(await migrationStatus(url, findMigrationsDir())).toMatchObject({
    pending: [],
    changed: [],
    newer: [],
  });
  const { store } = await openKernel({ databaseUrl: url });
  await store.witness.ready();
});

test('commits that are answered before they are on the disk look like no restore, behind a pooler too', async () => {
  const { url, name } = await createTestDatabase();
  await runSql(url, `alter database "${name}" set synchronous_commit = off`);
  const kernel = await openKernel({ databaseUrl: `${url}?pgbouncer=true` });

  for (let turn = 0; turn < 20; turn += 1) {
    await granted(kernel, { name: `thing ${String(turn)}` });
    await kernel.store.witness.look();
  }

  await expect(kernel.leases.grant(aRequest({ name: 'last' }))).resolves.toMatchObject({
    outcome: 'granted',
  });
});
