import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createDatabase } from '@leasehold/keys-core/postgres';
import { waitUntil, type TestProcess } from '@leasehold/testing';
import type { HolderSettings } from './stage/holder.ts';
import { holdsOf, overlapsOf, type Hold } from './stage/holds.ts';
import { FaultStage, untilPassed } from '../stage/stage.ts';
import { allWords } from './stage/words.ts';
import { startKillableDatabase, type KillableDatabase } from '../stage/killable-database.ts';
import { machineMs } from '../stage/machine-time.ts';

const PROCESS_COUNT = 5;
const LEASES_PER_PROCESS = 10;
const LEASE_COUNT = PROCESS_COUNT * LEASES_PER_PROCESS;
/** A renewed lease has at least two thirds of it left: longer than a restart takes on a busy machine. */
const LONG_TTL_MS = 15_000;
const SHORT_TTL_MS = 3_000;
const WAIT_MS = 60_000;

let postgres: KillableDatabase;
let lease: FaultStage;
beforeAll(async () => {
  postgres = await startKillableDatabase();
  const databaseUrl = postgres.url('leasehold');
  await createDatabase(databaseUrl);
  lease = await FaultStage.open({ databaseUrl });
});
afterAll(async ({}, file) => {
  await lease.close(file);
  await postgres.close();
});

const started: TestProcess[] = [];
afterEach(async () => {
  await Promise.all(started.splice(0).map((one) => one.kill()));
});

/** Processes that hold fifty leases between them, and others that wait in line for each. */
async function fiftyHeld(
  namespace: string,
  ttlMs: number,
): Promise<{ readonly holders: TestProcess[]; readonly all: TestProcess[] }> {
  const start = async (role: string, index: number): Promise<TestProcess> => {
    const tasks = Array.from({ length: LEASES_PER_PROCESS }, (_, place) => ({
      url: lease.controller().url,
      key: `${String(index)}-${String(place)}`,
      ttlMs,
      waitMs: WAIT_MS,
    }));
    const settings = { token: lease.token, namespace, tasks } satisfies HolderSettings;
    const holder = await lease.start('holder', settings, `${namespace}-${role}-${String(index)}`);
    started.push(holder);
    return holder;
  };
  const indices = Array.from({ length: PROCESS_COUNT }, (_, index) => index);
  const holders = await Promise.all(indices.map((index) => start('holder', index)));
  await waitUntil(() => allWords(holders, 'held').length === LEASE_COUNT, {
    what: 'fifty leases',
    timeoutMs: 20_000,
  });
  const waiters = await Promise.all(indices.map((index) => start('waiter', index)));
  await waitUntil(
    async () => {
      const text = 'select count(*)::int as count from lease_waiter where namespace = $1';
      const [row] = await lease.query<{ count: number }>(text, [namespace]);
      return row?.count === LEASE_COUNT;
    },
    { what: 'somebody in line for each', timeoutMs: 20_000 },
  );
  return { holders, all: [...holders, ...waiters] };
}

/** The leases that are held at this moment, as their holders know: tokens by key. */
function heldNow(processes: readonly TestProcess[]): Map<string, string> {
  const isHeld = (hold: Hold): boolean => hold.untilMs === Infinity;
  return new Map(
    holdsOf(processes)
      .filter(isHeld)
      .map(({ key, token }) => [key, token]),
  );
}

/** Holders and the database agree on each lease, and still agree a whole TTL later. */
async function expectAgreement(
  { namespace, ttlMs }: { readonly namespace: string; readonly ttlMs: number },
  processes: readonly TestProcess[],
): Promise<void> {
  const before = heldNow(processes);
  expect(before.size).toBe(LEASE_COUNT);
  await untilPassed(ttlMs);
  expect(heldNow(processes), 'what holders know').toEqual(before);
  expect(await lease.held(namespace), 'what the database knows').toEqual(before);
}

describe('a database that is killed while fifty leases are held and fifty callers wait in line', () => {
  test('F12 I1 C35 and is back before their deadlines: the holders keep every one, and renewals go on', async () => {
    const namespace = 'short';
    const { holders, all } = await fiftyHeld(namespace, LONG_TTL_MS);
    const before = heldNow(holders);

    const atMs = machineMs();
    await postgres.kill();
    await postgres.restart();
    console.log(
      `database killed and started again in ${String(Math.round(machineMs() - atMs))} ms, with fifty leases held`,
    );
    await expectAgreement({ namespace, ttlMs: LONG_TTL_MS }, all);

    expect(heldNow(all)).toEqual(before);
    expect(overlapsOf(holdsOf(all))).toEqual([]);
  });

  test('F12 I1 I4 for longer than their TTL: the holders lose every one by their own deadlines, and each goes to one other', async () => {
    const namespace = 'long';
    const { holders, all } = await fiftyHeld(namespace, SHORT_TTL_MS);

    const atMs = machineMs();
    await postgres.kill();
    await waitUntil(() => allWords(holders, 'lost').length === LEASE_COUNT, {
      what: 'the loss of fifty leases',
      timeoutMs: SHORT_TTL_MS + 5_000,
    });
    await untilPassed(Math.max(0, atMs + SHORT_TTL_MS - machineMs()));
    await postgres.restart();
    const backAtMs = machineMs();
    await waitUntil(() => heldNow(all).size === LEASE_COUNT, {
      what: 'fifty leases in other hands',
      timeoutMs: 20_000,
    });
    console.log(
      `database killed for ${String(Math.round(backAtMs - atMs))} ms: fifty leases were in other hands ${String(Math.round(machineMs() - backAtMs))} ms after it was back`,
    );

    for (const lost of allWords(holders, 'lost')) {
      expect(lost.reason).toBe('unreachable');
      expect(lost.atMs - atMs, 'lost within the TTL').toBeLessThan(SHORT_TTL_MS);
    }
    expect(overlapsOf(holdsOf(all)), 'I1 I2').toEqual([]);
    await expectAgreement({ namespace, ttlMs: SHORT_TTL_MS }, all);
  });
});
