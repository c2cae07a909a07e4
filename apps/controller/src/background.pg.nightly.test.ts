import { createWhileLeader } from '@leasehold/keys-core/leases';
import { openStore } from '@leasehold/keys-core/postgres';
import { createBootClock, createLogger, systemIds } from '@leasehold/service-kit';
import { createTestDatabase, startUrlProxy, waitUntil, type FaultProxy } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import { inOneController, runInBackground } from './background.ts';
import { startTestController, type TestController } from './testing/test-controller.ts';
import { query } from './testing/wire.ts';

const LEASE_MS = 3_000;

/** Does a job as a controller does, and records the order in which rounds began. */
function aController(databaseUrl: string, holder: string, began: string[]): () => Promise<void> {
  const log = createLogger({ name: 'test', level: 'silent' });
  const [clock, ids] = [createBootClock(), systemIds()];
  const store = openStore({ databaseUrl, datacenter: 'local', clock, ids });
  const whileLeader = createWhileLeader({ store, holder, ttlMs: LEASE_MS, log });
  const run = (): Promise<unknown> => Promise.resolve(began.push(holder));
  const on = { store, log };
  const stop = runInBackground(
    [inOneController({ name: 'job', everyMs: 20, run }, whileLeader, on)],
    on,
  );
  onTestFinished(() => store.close());
  onTestFinished(stop);
  return stop;
}

test('only one of two controllers does a job, round after round; when it is cut off the other takes over', async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const began: string[] = [];
  const lines = new Map<string, FaultProxy>();
  for (const holder of ['one', 'two']) {
    const { proxy, url } = await startUrlProxy(database.url);
    onTestFinished(() => proxy.close());
    lines.set(holder, proxy);
    aController(url, holder, began);
    onTestFinished(() => {
      proxy.heal();
    });
    await waitUntil(() => began.length > 0);
  }
  await waitUntil(() => began.length > 50);
  const before = [...began];
  const leader = before.at(-1) ?? '';
  const other = leader === 'one' ? 'two' : 'one';

  lines.get(leader)?.refuse();
  const since = (): string[] => began.slice(before.length);
  await waitUntil(() => since().filter((name) => name === other).length > 20);

  // After a long stall the other one has it in right, but they do not take turns.
  const changes = before.filter((name, at) => at > 0 && name !== before[at - 1]);
  expect(changes.length).toBeLessThan(before.length / 10);
  expect(since().lastIndexOf(leader)).toBeLessThan(since().indexOf(other));
});

/** The holders of the leases of the jobs that are done every few seconds. */
async function holders(on: TestController): Promise<Record<string, string>> {
  const { secret } = await on.token('viewer');
  const input = { namespace: ['leasehold'] };
  const { items } = (await query(on, 'leases.list', { secret, input })) as {
    items: { name: string; holder: string | null; phase: string }[];
  };
  return Object.fromEntries(items.map(({ name, holder }) => [name, holder ?? '']));
}

test('the jobs of a controller that stops go to another one, as the list of leases shows', async () => {
  const one = await startTestController();
  const ofOne = await waitUntil(async () => {
    const found = await holders(one);
    return 'event counts' in found && 'free rows' in found ? found : undefined;
  });
  const two = await startTestController({ databaseUrl: one.databaseUrl });

  await one.controller.close();
  const ofTwo = await waitUntil(async () => {
    const found = await holders(two);
    // Also those of jobs that had not begun when the first controller was looked at.
    const gone = ['', ...Object.values(ofOne)];
    const areGiven = Object.keys(ofOne).every((name) => name in found);
    return areGiven && Object.values(found).every((holder) => !gone.includes(holder))
      ? found
      : undefined;
  });

  expect(new Set(Object.values(ofOne)).size).toBe(1);
  expect(new Set(Object.values(ofTwo)).size).toBe(1);
});
