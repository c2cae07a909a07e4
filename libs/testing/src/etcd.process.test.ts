import { afterEach, expect, test } from 'vitest';
import { startEtcd, type TestEtcd } from './etcd.ts';
import { waitUntil } from './wait-until.ts';

let etcd: TestEtcd | undefined;

afterEach(async () => {
  await etcd?.stop();
});

test('a cluster outlives its leader, and takes it back', async () => {
  const started = await startEtcd({ membersCount: 3 });
  etcd = started;
  const first = await waitUntil(() => started.leader());

  await started.kill(first);
  const next = await waitUntil(() => started.leader(), { timeoutMs: 20_000 });

  expect(next).not.toBe(first);
  await started.restart(first);
  await started.waitUntilHealthy();
  expect(await started.isHealthy(first)).toBe(true);
});
