import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { waitUntil, type TestProcess } from '@leasehold/testing';
import { connectionOf } from '@leasehold/service-kit';
import pg from 'pg';
import type { HolderSettings } from '../leases/stage/holder.ts';
import { holdsOf, overlapsOf } from '../leases/stage/holds.ts';
import { allWords } from '../leases/stage/words.ts';
import { machineMs } from '../stage/machine-time.ts';
import { FaultStage, PATIENT_LADDER, untilPassed } from '../stage/stage.ts';
import { expectUnharmed } from '../stage/verdict.ts';
import { slowestMs, startCallers, tally } from './stage/callers.ts';

const LOCK_MS = 10_000;
/** Just renewed, it may be used for 15 s: it outlives the lock by 5 s, if it is renewed then. */
const LONG_TTL_MS = 18_000;
const SHORT_TTL_MS = 3_000;
const LEASE_COUNT = 10;
const CALLER_COUNT = 60;
/** A statement waits for a lock for a second, and a caller for the statement before its own; and a busy machine. */
const ANSWER_MS_MAX = 5_000;
const RESUME_MS_MAX = 2_000;

let lease: FaultStage;
const started: TestProcess[] = [];
beforeAll(async () => {
  lease = await FaultStage.open({ controllers: 2, ladder: PATIENT_LADDER });
});
afterEach(async () => {
  await Promise.all(started.splice(0).map((one) => one.kill()));
});
afterAll(async ({}, file) => {
  await lease.close(file);
});

interface TableLock {
  /** When each short lease expires, read under the lock: no renewal comes after it. */
  readonly expiries: ReadonlyMap<string, number>;
  readonly unlock: () => Promise<void>;
}

async function hold(namespace: string, ttlMs: number, isEndless = false): Promise<TestProcess> {
  const tasks = Array.from({ length: LEASE_COUNT }, (_, place) => ({
    ...{ url: lease.controller(place % 2).url, key: String(place), ttlMs },
    ...{ waitMs: 60_000, takesAgain: isEndless },
  }));
  const settings = { token: lease.token, namespace, tasks } satisfies HolderSettings;
  const holder = await lease.start('holder', settings, namespace);
  started.push(holder);
  await waitUntil(() => allWords([holder], 'held').length === LEASE_COUNT, { what: namespace });
  return holder;
}

/** Locks the table of grants, as a careless migration would. */
async function lockLeases(): Promise<TableLock> {
  const client = new pg.Client(connectionOf(lease.databaseUrl));
  await client.connect();
  await client.query('begin');
  await client.query('lock table lease in access exclusive mode');
  return {
    expiries: await lease.expiries('short', client),
    unlock: async () => {
      await client.query('rollback');
      await client.end();
    },
  };
}

test('F11 I1 I4 the table of grants is locked for 10 s: who has time left keeps its lease, all others stop in time, refusals may be repeated, and work goes on at once', async () => {
  await lease.startDrone({ droneId: 'locked', programs: { room: 'gentle' } });
  const before = await lease.connect('lobby', 'room');
  const { pids } = await lease.untilHeard(before);
  const short = await hold('short', SHORT_TTL_MS, true);
  const long = await hold('long', LONG_TTL_MS);
  const apis = lease.controllers.map(({ url }) => lease.api('admin', url));
  await lease.untilRenewed(before);

  const { expiries, unlock } = await lockLeases();
  const lockedAtMs = machineMs();
  const callers = startCallers({ apis, namespace: 'fresh', count: CALLER_COUNT });
  await untilPassed(LOCK_MS);
  const lostMeanwhile = allWords([short], 'lost');
  await unlock();
  const unlockedAtMs = machineMs();
  await untilPassed(RESUME_MS_MAX);
  await callers.stop();
  const resumed = callers.answers.find(
    ({ what, atMs }) => what === 'granted' && atMs > unlockedAtMs,
  );
  await lease.untilRenewed(before);
  await waitUntil(() => allWords([short], 'held').length === 2 * LEASE_COUNT, {
    what: 'the short leases, taken again',
  });
  await waitUntil(
    async () =>
      [...(await lease.expiries('long')).values()].every(
        (expiresAtMs) => expiresAtMs > unlockedAtMs + LONG_TTL_MS,
      ),
    { what: 'a renewal of each long lease' },
  );

  console.log(
    `locked for ${String(Math.round(unlockedAtMs - lockedAtMs))} ms; the first grant ${String(Math.round((resumed?.atMs ?? 0) - unlockedAtMs))} ms after that; the slowest answer took ${String(Math.round(slowestMs(callers.answers)))} ms`,
    tally(callers.answers),
  );
  // Who had time left.
  expect(allWords([long], 'lost'), 'long leases').toEqual([]);
  expect(await lease.held('long')).toEqual(
    new Map(holdsOf([long]).map(({ key, token }) => [key, token])),
  );
  await expectUnharmed(lease, { before, program: 'room', pids });
  // Who had none: stopped before its expiry, and nobody else had it before.
  expect(lostMeanwhile).toHaveLength(LEASE_COUNT);
  for (const { leaseId, atMs, key } of lostMeanwhile) {
    expect(atMs, `the loss of ${key}`).toBeLessThan(expiries.get(leaseId) ?? 0);
  }
  expect(overlapsOf(holdsOf([short])), 'I1 I2').toEqual([]);
  // Callers.
  const refused = callers.answers.filter(({ what }) => what !== 'granted');
  expect(refused.length).toBeGreaterThan(CALLER_COUNT);
  expect(refused.filter(({ isRetryable }) => !isRetryable)).toEqual([]);
  expect(refused.map(({ reason }) => reason)).toContain('table_locked');
  expect(slowestMs(callers.answers)).toBeLessThan(ANSWER_MS_MAX);
  expect((resumed?.atMs ?? Infinity) - unlockedAtMs).toBeLessThan(RESUME_MS_MAX);
  expect(await lease.held('fresh'), 'what was acknowledged').toEqual(callers.granted());
});
