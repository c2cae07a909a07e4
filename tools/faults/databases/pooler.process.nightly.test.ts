import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import {
  createTestDatabase,
  startControllerProcess,
  startPgBouncer,
  waitUntil,
  type PgBouncerOptions,
  type TestDatabase,
  type TestPgBouncer,
  type TestProcess,
} from '@leasehold/testing';
import { holdsOf, overlapsOf } from '../leases/stage/holds.ts';
import type { HolderSettings } from '../leases/stage/holder.ts';
import { allWords } from '../leases/stage/words.ts';
import { StreamReader } from '../random/world/streams.ts';
import { FaultStage, PATIENT_LADDER, untilPassed } from '../stage/stage.ts';
import { machineMs } from '../stage/machine-time.ts';
import { expectSound, expectUnharmed } from '../stage/verdict.ts';

const LEASE_COUNT = 10;
const TTL_MS = 3_000;
/** A renewed lease has two thirds of it left: longer than a restart takes on a busy machine. */
const LONG_TTL_MS = 9_000;
const WAIT_MS = 30_000;
/** Without notifications a waiter looks for itself, every 400 ms; and a busy machine. */
const HANDOVER_MS_MAX = 2_000;
/** Of the test itself: the recorder, and the one that asks. */
const OWN_SESSIONS = 2;

/** As docs/operate/postgresql.md says, for this database alone. */
const SETTINGS = [
  'search_path = leasehold, pg_temp',
  "statement_timeout = '2s'",
  "idle_in_transaction_session_timeout = '5s'",
  'jit = off',
];

let database: TestDatabase;
let pooler: TestPgBouncer;
let lease: FaultStage;
beforeAll(async () => {
  database = await createTestDatabase();
  pooler = await startPgBouncer(database.url);
  lease = await FaultStage.open({
    databaseUrl: await emptied(database),
    controllersUrl: `${pooler.url}?pgbouncer=true`,
    controllers: 2,
    ladder: PATIENT_LADDER,
  });
});
afterAll(async ({}, file) => {
  await lease.close(file);
  await pooler.stop();
  await database.drop();
});

const started: TestProcess[] = [];
afterEach(async () => {
  await Promise.all(started.splice(0).map((one) => one.kill()));
});

/** Without a schema, so that the migrations go through the pooler as well. */
async function emptied({ name, url }: TestDatabase): Promise<string> {
  await query('drop schema leasehold cascade');
  for (const setting of SETTINGS) await query(`alter database "${name}" set ${setting}`);
  return url;
}

async function query(text: string): Promise<void> {
  const client = new pg.Client(database.url);
  await client.connect();
  await client.query(text);
  await client.end();
}

async function hold(
  label: string,
  of: { namespace: string; ttlMs: number; controller?: number; holdMs?: number; keys?: number },
): Promise<TestProcess> {
  const { namespace, ttlMs, controller = 0, holdMs, keys = LEASE_COUNT } = of;
  const tasks = Array.from({ length: keys }, (_, place) => ({
    url: lease.controller(controller).url,
    key: String(place),
    ttlMs,
    holdMs,
    waitMs: WAIT_MS,
  }));
  const settings = { token: lease.token, namespace, tasks } satisfies HolderSettings;
  const holder = await lease.start('holder', settings, `${namespace}-${label}`);
  started.push(holder);
  return holder;
}

async function untilHeld(processes: readonly TestProcess[], count: number): Promise<void> {
  await waitUntil(() => allWords(processes, 'held').length === count, {
    what: `${String(count)} leases`,
  });
}

describe('F13 controllers behind a pooler in transaction mode', () => {
  test('serve leases: they are renewed, and each goes to a waiter at another controller', async () => {
    const namespace = 'line';
    const holder = await hold('holder', { namespace, ttlMs: TTL_MS, holdMs: 2 * TTL_MS });
    await untilHeld([holder], LEASE_COUNT);
    const waiter = await hold('waiter', { namespace, ttlMs: TTL_MS, controller: 1 });
    await untilHeld([holder, waiter], 2 * LEASE_COUNT);

    const all = [holder, waiter];
    expect(allWords(all, 'lost', 'not_held')).toEqual([]);
    const holds = holdsOf(all);
    expect(overlapsOf(holds), 'I1 I2').toEqual([]);
    const first = new Map(holds.slice(0, LEASE_COUNT).map((one) => [one.key, one]));
    for (const next of holds.slice(LEASE_COUNT)) {
      const former = first.get(next.key);
      expect(next.fromMs - (former?.untilMs ?? 0)).toBeLessThan(HANDOVER_MS_MAX);
    }
  });

  test('serve keys and events, with no more sessions than the pool has', async () => {
    const readers = [0, 1].map(
      (index) => new StreamReader(String(index), lease.controller(index).url, lease.token),
    );
    onTestFinished(async () => void (await Promise.all(readers.map((one) => one.close()))));
    await lease.startDrone({ droneId: 'pooled', programs: { room: 'gentle' } });
    const answer = await lease.connect('lobby', 'room');
    await lease.untilRenewed(answer, 2);

    await expectSound(lease, answer);
    const [last] = await lease.query<{ id: number }>('select max(id)::int as id from lease_event');
    for (const reader of readers) {
      await waitUntil(() => reader.received.at(-1)?.id === last?.id, { what: 'the last event' });
      const ids = reader.received.map(({ id }) => id);
      expect(ids).toEqual(ids.toSorted((a, b) => a - b));
    }
    const [sessions] = await lease.query<{ count: number }>(
      `select count(*)::int from pg_stat_activity
       where datname = current_database() and backend_type = 'client backend'`,
    );
    expect(sessions?.count).toBeLessThanOrEqual(pooler.poolSize + OWN_SESSIONS);
  });

  test('lose no lease and no key when the pooler is killed and started again', async () => {
    const namespace = 'killed';
    const before = await lease.connect('lobby', 'room');
    const { pids } = await lease.untilHeard(before);
    const holder = await hold('holder', { namespace, ttlMs: LONG_TTL_MS });
    await untilHeld([holder], LEASE_COUNT);

    const atMs = machineMs();
    await pooler.kill();
    const waiter = await hold('waiter', { namespace: 'fresh', ttlMs: TTL_MS, keys: 1 });
    await pooler.restart();
    console.log(`the pooler was away for ${String(Math.round(machineMs() - atMs))} ms`);
    await untilHeld([waiter], 1);
    await lease.untilRenewed(before);
    await untilPassed(LONG_TTL_MS);

    expect(allWords([holder, waiter], 'lost')).toEqual([]);
    expect(await lease.held(namespace)).toEqual(
      new Map(holdsOf([holder]).map(({ key, token }) => [key, token])),
    );
    await expectUnharmed(lease, { before, program: 'room', pids });
  });

  test.each<[string, PgBouncerOptions, RegExp]>([
    ['refuses connection options', {}, /a pooler refuses connection options: add pgbouncer=true/u],
    [
      'drops prepared statements',
      { settings: { ignore_startup_parameters: 'options' } },
      /does not keep prepared statements: add pgbouncer=true to DATABASE_URL/u,
    ],
  ])(
    'that the URL does not mention refuse to start, with the remedy, when it %s',
    async (_, options, problem) => {
      const other = await startPgBouncer(database.url, options);
      onTestFinished(() => other.stop());
      const home = await mkdtemp(path.join(os.tmpdir(), 'leasehold-pooler-'));
      onTestFinished(() => rm(home, { recursive: true, force: true, maxRetries: 10 }));

      await expect(startControllerProcess({ databaseUrl: other.url, home })).rejects.toThrow(
        problem,
      );
    },
  );
});
