import path from 'node:path';
import { createDatabase } from '@leasehold/keys-core/postgres';
import {
  createSmallDisk,
  startProcess,
  waitUntil,
  type SmallDisk,
  type TestProcess,
} from '@leasehold/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bundleProgram } from '../leases/stage/build-program.ts';
import type { HolderSettings } from '../leases/stage/holder.ts';
import { holdsOf, overlapsOf } from '../leases/stage/holds.ts';
import { FaultStage } from '../stage/stage.ts';
import { allWords } from '../leases/stage/words.ts';
import { machineMs } from '../stage/machine-time.ts';
import { startCallers, tally, type Callers } from './stage/callers.ts';
import type { PostgresSettings } from './stage/postgres-main.ts';

const DISK_MEGABYTES = 112;
const TTL_MS = 3_000;
const LEASE_COUNT = 10;
const CALLER_COUNT = 20;
/** From the space to the first grant: PostgreSQL is started again and recovers. */
const RESUME_MS_MAX = 15_000;
/** One record of the log, of which there are as many as it takes. */
const LOG_RECORD_BYTES = 4_000_000;

let disk: SmallDisk;
let postgres: TestProcess;
let lease: FaultStage;
beforeAll(async () => {
  disk = await createSmallDisk(DISK_MEGABYTES);
  const program = await bundleProgram(path.join(import.meta.dirname, 'stage/postgres-main.ts'));
  const [command = '', ...prefix] = disk.prefix;
  postgres = await startProcess({
    name: 'postgres on a small disk',
    command,
    args: [...prefix, process.execPath, program, JSON.stringify(settingsOf(disk))],
    env: {},
  });
  const url = new URL(String(postgres.ready['url']));
  url.pathname = '/leasehold';
  await createDatabase(url.href);
  lease = await FaultStage.open({ databaseUrl: url.href });
}, 90_000);
afterAll(async ({}, file) => {
  await lease.close(file);
  await postgres.stop();
  await disk.remove();
});

function settingsOf({ folder }: SmallDisk): PostgresSettings {
  return {
    dataDir: path.join(folder, 'postgres'),
    settings: { min_wal_size: '32MB', max_wal_size: '32MB' },
  };
}

async function hold(namespace: string): Promise<TestProcess> {
  const tasks = Array.from({ length: LEASE_COUNT }, (_, place) => ({
    ...{ url: lease.controller().url, key: String(place), ttlMs: TTL_MS },
    ...{ waitMs: 60_000, takesAgain: true },
  }));
  const settings = { token: lease.token, namespace, tasks } satisfies HolderSettings;
  const holder = await lease.start('holder', settings, namespace);
  await waitUntil(() => allWords([holder], 'held').length === LEASE_COUNT, { what: 'ten leases' });
  return holder;
}

function startAsking(): Callers {
  return startCallers({
    ...{ apis: [lease.api()], namespace: 'fresh', count: CALLER_COUNT },
    comment: 'x'.repeat(1_000),
  });
}

/** Writes into the log of the database until there is no space for it either, which ends PostgreSQL. */
async function fillTheLog(): Promise<void> {
  await waitUntil(async () => {
    await lease
      .query(`select pg_logical_emit_message(true, 'fill', repeat('x', $1))`, [LOG_RECORD_BYTES])
      .catch(() => undefined);
    return postgres.log().includes('could not be started');
  });
}

/** The tokens that were ever granted in a namespace, by key. */
async function everGranted(namespace: string): Promise<Set<string>> {
  const facts = await lease.facts(namespace);
  return new Set(facts.map(({ key, token }) => `${key} ${token}`));
}

test('the disk of the database is full: grants are refused with the reason, holders stop in time, nothing acknowledged is lost, and with space everything works by itself', async () => {
  const holder = await hold('held');
  const callers = startAsking();
  await waitUntil(() => callers.granted().size > CALLER_COUNT, { what: 'some grants' });

  await disk.fill();
  const fullAtMs = machineMs();
  await waitUntil(() => callers.answers.some(({ reason }) => reason === 'disk_full'), {
    what: 'a refusal with the reason',
  });
  await fillTheLog();
  const endedAtMs = machineMs();
  await waitUntil(() => allWords([holder], 'lost').length === LEASE_COUNT, {
    what: 'the loss of every lease',
  });
  const lost = allWords([holder], 'lost');
  const refused = callers.since(fullAtMs);
  await disk.free();
  const freeAtMs = machineMs();
  const resumed = await waitUntil(
    () => callers.answers.find(({ what, atMs }) => what === 'granted' && atMs > freeAtMs),
    { what: 'a grant' },
  );
  await waitUntil(() => allWords([holder], 'held').length === 2 * LEASE_COUNT, {
    what: 'ten leases, taken again',
  });
  await callers.stop();

  console.log(
    `full for ${String(Math.round(freeAtMs - fullAtMs))} ms; the first grant ${String(Math.round(resumed.atMs - freeAtMs))} ms after there was space`,
    tally(refused),
  );
  expect(refused.filter(({ what, isRetryable }) => what !== 'granted' && !isRetryable)).toEqual([]);
  expect(resumed.atMs - freeAtMs).toBeLessThan(RESUME_MS_MAX);
  for (const { atMs, key } of lost) {
    expect(atMs - endedAtMs, `the loss of ${key}`).toBeLessThan(TTL_MS);
  }
  expect(overlapsOf(holdsOf([holder])), 'I1 I2').toEqual([]);
  expect(await lease.held('fresh'), 'every grant that was acknowledged').toEqual(callers.granted());
  const granted = await everGranted('held');
  for (const { key, token } of holdsOf([holder])) expect(granted).toContain(`${key} ${token}`);
});
