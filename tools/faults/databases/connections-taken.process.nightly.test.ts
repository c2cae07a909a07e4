import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import {
  createDatabase,
  startEmbeddedPostgres,
  type EmbeddedPostgres,
} from '@leasehold/keys-core/postgres';
import { startControllerProcess, waitUntil } from '@leasehold/testing';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { HolderSettings } from '../leases/stage/holder.ts';
import { FaultStage, untilPassed } from '../stage/stage.ts';
import { allWords } from '../leases/stage/words.ts';
import { machineMs } from '../stage/machine-time.ts';
import { expectUnharmed } from '../stage/verdict.ts';
import { startCallers, tally } from './stage/callers.ts';

const CONNECTIONS_MAX = 60;
const TTL_MS = 6_000;
const LEASE_COUNT = 10;
/** Longer than a pool keeps a connection that nobody uses: what is closed now is not opened again. */
const TAKEN_MS = 16_000;
/** Renewals are tried for long enough that a busy machine alone loses nothing. */
const LADDER = {
  LEASEHOLD_KEY_RENEW_MS: '2500',
  LEASEHOLD_KEY_SOFT_MS: '7000',
  LEASEHOLD_KEY_HARD_MS: '8000',
  LEASEHOLD_KEY_EXPIRE_MS: '9500',
};
const CALLER_COUNT = 30;
const ANSWER_MS_MAX = 8_000;
const RESUME_MS_MAX = 3_000;
const ROLE = 'ordinary';

let folder: string;
let postgres: EmbeddedPostgres;
let lease: FaultStage;
/** As a role for which no connections are reserved. */
let ordinaryUrl: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-connections-'));
  postgres = await startEmbeddedPostgres({
    dataDir: path.join(folder, 'postgres'),
    settings: { max_connections: String(CONNECTIONS_MAX) },
  });
  const databaseUrl = postgres.url('leasehold');
  await createDatabase(databaseUrl);
  ordinaryUrl = await urlOfRole(databaseUrl);
  lease = await FaultStage.open({ databaseUrl, controllersUrl: ordinaryUrl, env: LADDER });
});
afterAll(async ({}, file) => {
  await lease.close(file);
  await postgres.stop();
  await rm(folder, { recursive: true, force: true, maxRetries: 10 });
});

async function urlOfRole(databaseUrl: string): Promise<string> {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  await client.query(`create role ${ROLE} login password 'secret'`);
  await client.query(`grant create on database leasehold to ${ROLE}`);
  await client.end();
  const url = new URL(databaseUrl);
  [url.username, url.password] = [ROLE, 'secret'];
  return url.href;
}

/** Takes every connection, and each that becomes free. @returns a function that gives all back. */
async function takeConnections(): Promise<() => Promise<void>> {
  const taken: pg.Client[] = [];
  const over = new AbortController();
  let refusedCount = 0;
  async function take(): Promise<void> {
    const client = new pg.Client({ connectionString: ordinaryUrl });
    client.on('error', () => undefined);
    try {
      await client.connect();
      taken.push(client);
    } catch {
      refusedCount += 1;
      await client.end().catch(() => undefined);
      await untilPassed(10);
    }
  }
  const taking = (async () => {
    while (!over.signal.aborted) await take();
  })();
  await waitUntil(() => refusedCount > 0, { what: 'the end of the connections' });
  return async () => {
    over.abort();
    await taking;
    await Promise.all(taken.map((client) => client.end()));
  };
}

/** What a controller logs while the connections are taken. */
const WAITS = 'others have all connections of the database: waiting for one';

/** A controller that starts now. @returns when it answered. */
async function startAnother(onPrinted: (text: string) => void): Promise<number> {
  const home = path.join(folder, 'another-home');
  await mkdir(home, { recursive: true });
  const another = await startControllerProcess({ databaseUrl: ordinaryUrl, home, onPrinted });
  lease.onClose(() => another.kill());
  return machineMs();
}

test('all connections are taken by others: renewals go on and nothing is lost, refusals may be repeated, and a controller that starts meanwhile reports it and waits', async () => {
  await lease.startDrone({ droneId: 'crowded', programs: { room: 'gentle' } });
  const before = await lease.connect('lobby', 'room');
  const { pids } = await lease.untilHeard(before);
  const tasks = Array.from({ length: LEASE_COUNT }, (_, place) => ({
    url: lease.controller().url,
    key: String(place),
    ttlMs: TTL_MS,
  }));
  const settings = { token: lease.token, namespace: 'kept', tasks } satisfies HolderSettings;
  const holder = await lease.start('holder', settings);
  await waitUntil(() => allWords([holder], 'held').length === LEASE_COUNT, { what: 'leases' });

  const giveBack = await takeConnections();
  const takenAtMs = machineMs();
  await untilPassed(TAKEN_MS);
  let printed = '';
  const another = startAnother((text) => (printed += text));
  // After a time in which nobody asked, so that the connections for that are gone.
  const callers = startCallers({
    apis: [lease.api()],
    namespace: 'fresh',
    count: CALLER_COUNT,
  });
  await lease.untilRenewed(before, 2);
  await waitUntil(() => printed.includes(WAITS), { what: 'a controller that waits' });
  const givenBackAtMs = machineMs();
  await giveBack();
  const freeAtMs = machineMs();
  const startedAtMs = await another;
  await untilPassed(RESUME_MS_MAX);
  await callers.stop();
  const resumed = callers.answers.find(({ what, atMs }) => what === 'granted' && atMs > freeAtMs);

  console.log(
    `taken for ${String(Math.round(freeAtMs - takenAtMs))} ms; another controller answered ${String(Math.round(startedAtMs - freeAtMs))} ms after that`,
    tally(callers.answers),
  );
  expect(allWords([holder], 'lost', 'not_held')).toEqual([]);
  expect((await lease.held('kept')).size).toBe(LEASE_COUNT);
  await expectUnharmed(lease, { before, program: 'room', pids });
  for (const { what, isRetryable, sentAtMs, atMs } of callers.answers) {
    if (what !== 'granted') expect(isRetryable, what).toBe(true);
    expect(atMs - sentAtMs, 'an answer').toBeLessThan(ANSWER_MS_MAX);
  }
  expect((resumed?.atMs ?? Infinity) - freeAtMs).toBeLessThan(RESUME_MS_MAX);
  expect(await lease.held('fresh'), 'what was acknowledged').toEqual(callers.granted());
  expect(startedAtMs).toBeGreaterThan(givenBackAtMs);
});
