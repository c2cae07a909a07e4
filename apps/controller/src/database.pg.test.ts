/** A controller behind a pooler: it sends no settings of its own, and so has what is set for the database. */
import { createTestDatabase, setMeaningOddly, waitUntil } from '@leasehold/testing';
import type { LeaseError } from '@leasehold/keys-core';
import { MEANING_SETTINGS } from '@leasehold/service-kit/session-settings';
import pg from 'pg';
import { expect, test } from 'vitest';
import { startTestController } from './testing/test-controller.ts';
import { mutate, query } from './testing/wire.ts';
import { acquireLease, refOf } from './testing/wire-leases.ts';

/** What docs/operate/postgresql.md tells operators to set. */
const ADVISED = [
  'set search_path = leasehold, pg_temp',
  "set statement_timeout = '2s'",
  "set idle_in_transaction_session_timeout = '5s'",
  'set jit = off',
];
/** Any will do. */
const FREE = 'TimeZone';
const NAMED = Object.keys(MEANING_SETTINGS)
  .filter((name) => name !== FREE)
  .sort();

/** A time that is read in another time zone is wrong by this or more. */
const HOUR_MS = 3_600_000;

/** A database with the settings that are advised, and with odd ones, of which `changes` take some back. */
async function anOddDatabase(changes: readonly string[] = []): Promise<string> {
  const { url } = await createTestDatabase();
  await setMeaningOddly(url);
  await alterDatabase(url, [...ADVISED, ...changes]);
  return `${url}?pgbouncer=true`;
}

/** Changes the settings of new sessions, and ends all others: a pooler opens new ones by itself. */
async function alterDatabase(url: string, changes: readonly string[]): Promise<void> {
  const administrator = new pg.Client(url);
  await administrator.connect();
  const name = pg.escapeIdentifier(new URL(url).pathname.slice(1));
  for (const change of changes) await administrator.query(`alter database ${name} ${change}`);
  await administrator.query(`
    select pg_terminate_backend(pid, 5000) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()`);
  await administrator.end();
}

/** The code with which a controller refuses to start, and the settings that it names. */
async function refusalOn(databaseUrl: string): Promise<{ code: string; named: string[] }> {
  const error = await startTestController({ databaseUrl }).then(
    () => new Error('it has started'),
    (thrown: unknown) => thrown as LeaseError,
  );
  const named = [...error.message.matchAll(/\b(\w+) is "/gu)].map(([, name = '']) => name);
  return { code: 'code' in error ? error.code : error.message, named: [...new Set(named)].sort() };
}

test('where statements would mean something else, a controller refuses to start, and names every setting', async () => {
  const databaseUrl = await anOddDatabase();

  expect(await refusalOn(databaseUrl)).toEqual({ code: 'config.invalid', named: NAMED });
});

test('what it does not name may be odd: leases are granted, renewed and shown with the right times and values', async () => {
  const on = await startTestController({
    databaseUrl: await anOddDatabase(NAMED.map((name) => `reset ${name}`)),
  });
  const { secret } = await on.token('client');
  const [key, metadata] = ['é "\\', { list: [null, 1.5] }];
  const beforeMs = Date.now();

  const lease = await acquireLease(on, secret, { key, metadata });

  const input = { renewals: [refOf(lease)], localTimeMs: 1_000_000 };
  expect(await mutate(on, 'leases.heartbeat', { secret, input })).toMatchObject({
    results: [{ outcome: 'renewed' }],
  });
  const shown = await query(on, 'leases.get', { secret, input: { namespace: 'test', name: key } });
  expect(shown).toMatchObject({ name: key, metadata, phase: 'held' });
  const { grantedAt } = shown as { grantedAt: string };
  expect(Math.abs(Date.parse(grantedAt) - beforeMs)).toBeLessThan(HOUR_MS);
});

test('synchronous_commit that is switched off at run time stops no grants, and the next start is refused', async () => {
  const databaseUrl = await anOddDatabase(NAMED.map((name) => `reset ${name}`));
  const on = await startTestController({ databaseUrl });
  const { secret } = await on.token('client');

  await alterDatabase(databaseUrl, ['set synchronous_commit = off']);

  const { store } = on.controller;
  const answered = await waitUntil(() =>
    store.general.$queryRaw<{ how: string }[]>`
      select current_setting('synchronous_commit') as how`.catch(() => undefined),
  );
  expect(answered).toEqual([{ how: 'off' }]);
  for (let beat = 0; beat < 5; beat += 1) {
    await acquireLease(on, secret);
    await store.witness.look();
  }
  expect(await refusalOn(databaseUrl)).toEqual({
    code: 'config.invalid',
    named: ['synchronous_commit'],
  });
});
