import { randomInt } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  createTestDatabase,
  startUrlProxy,
  waitUntil,
  type FaultProxy,
  type TestDatabase,
} from '@leasehold/testing';
import type { HolderSettings } from '../leases/stage/holder.ts';
import { FaultStage, untilPassed } from '../stage/stage.ts';
import { allWords } from '../leases/stage/words.ts';
import { machineMs } from '../stage/machine-time.ts';
import { expectSound } from '../stage/verdict.ts';

const TTL_MS = 3_000;
const LEASE_COUNT = 10;
const SLOW_MS = 12_000;
/** One way, between clients and the controller; drawn again all the time, for each direction. */
const DELAY_MS_MAX = 220;
const CHANGE_MS = 40;
/** One way, between the controller and the database; each connection has its own. */
const SPREAD_MS = 150;
/** Between the reply and the sample of the database that shows the expiry it stands for. */
const SAMPLE_MS_MAX = 200;
const NAMESPACE = 'slow';

let database: TestDatabase;
let databaseLink: FaultProxy;
let lease: FaultStage;
let line: FaultProxy;
beforeAll(async () => {
  database = await createTestDatabase();
  const { proxy, url } = await startUrlProxy(database.url);
  databaseLink = proxy;
  lease = await FaultStage.open({ databaseUrl: database.url, controllersUrl: url });
  line = await lease.front();
  lease.recorder.watch(NAMESPACE);
});
afterAll(async ({}, file) => {
  await lease.close(file);
  await databaseLink.close();
  await database.drop();
});

/** Delays that change all the time, until they are asked to end. */
function slowDown(): () => Promise<void> {
  const over = new AbortController();
  databaseLink.spread(SPREAD_MS);
  const changing = (async () => {
    while (!over.signal.aborted) {
      line.delay(randomInt(DELAY_MS_MAX), randomInt(DELAY_MS_MAX));
      await pause(CHANGE_MS);
    }
  })();
  return async () => {
    over.abort();
    await changing;
  };
}

test('F10 I4 I8 while messages are delayed and overtake each other, no holder counts on a lease for longer than the database has promised, and each stops in time', async () => {
  await lease.startDrone({
    ...{ droneId: 'slow', programs: { room: 'gentle' }, controllerUrls: [line.url] },
  });
  const answer = await lease.connect('lobby', 'room');
  const tasks = Array.from({ length: LEASE_COUNT }, (_, place) => ({
    ...{ url: line.url, key: String(place), ttlMs: TTL_MS, takesAgain: true, waitMs: 10_000 },
  }));
  const settings = { token: lease.token, namespace: NAMESPACE, tasks, reportsClaims: true };
  const endSlowness = slowDown();
  const holder = await lease.start('holder', settings satisfies HolderSettings);
  await untilPassed(SLOW_MS);
  await endSlowness();
  const cutAtMs = machineMs();
  line.drop();
  const held = new Set((await lease.held(NAMESPACE)).keys());
  const lost = await waitUntil(
    () => {
      const since = allWords([holder], 'lost').filter(({ atMs }) => atMs >= cutAtMs);
      return since.length >= held.size && since;
    },
    { what: 'the loss of every lease' },
  );
  await lease.untilSilent(answer);

  const claims = allWords([holder], 'claims');
  const early = claims.map(({ leaseId, untilMs, atMs, key }) => {
    const promises = lease.recorder.promises(leaseId);
    const seen = promises.filter(({ seenAtMs }) => seenAtMs <= atMs + SAMPLE_MS_MAX);
    const promisedMs = Math.max(...seen.map(({ notBeforeMs }) => notBeforeMs));
    return { key, byMs: promisedMs - untilMs };
  });
  console.log(
    `${String(claims.length)} deadlines, early by ${String(Math.round(Math.min(...early.map(({ byMs }) => byMs))))} to ${String(Math.round(Math.max(...early.map(({ byMs }) => byMs))))} ms`,
  );
  expect(claims.length).toBeGreaterThan(2 * LEASE_COUNT);
  expect(early.filter(({ byMs }) => byMs < 0)).toEqual([]);
  for (const { leaseId, atMs, key } of lost) {
    const expiresAtMs = Math.max(...lease.recorder.promises(leaseId).map((one) => one.notBeforeMs));
    expect(atMs, `the loss of ${key}`).toBeLessThan(expiresAtMs);
  }
  await expectSound(lease, answer);
});
