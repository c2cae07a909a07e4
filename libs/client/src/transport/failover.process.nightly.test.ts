import { randomUUID } from 'node:crypto';
import { openTestStage, waitUntil } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import { createLeasehold, type Leasehold } from '../index.ts';
import type { Lease } from '../lease/lease.ts';

const TTL_MS = 9_000;

/** Two controllers of one database, the first one seen through a proxy. */
async function twoControllers() {
  const stage = await openTestStage({ controllers: 2 });
  onTestFinished(() => stage.close());
  const [first, second] = [stage.controller(0), stage.controller(1)];
  const proxy = await stage.front();
  const { client: token } = stage.credentials;
  const url = `${proxy.url},${second.url}`;
  const holders = await Promise.all(
    (['ws', 'http'] as const).map(async (transport) => {
      const client = createLeasehold({ url, token, transport });
      onTestFinished(() => client.close());
      return { client, lease: await aLease(client) };
    }),
  );
  return { first, second, proxy, url, token, holders };
}

const aLease = (client: Leasehold): Promise<Lease> =>
  client.defineLease(['failover'], { ttlMs: TTL_MS }).acquire(randomUUID());

/** Waits until the TTL has passed since `fromMs`, so a lease that is still held was renewed after it. */
async function untilOutlived(lease: Lease, fromMs: number): Promise<void> {
  await waitUntil(() => !lease.isHeld || performance.now() - fromMs > TTL_MS, {
    timeoutMs: 3 * TTL_MS,
  });
}

test('leases go on when one of two controllers is killed, and new ones are granted', async () => {
  const { first, holders } = await twoControllers();
  const killedAtMs = performance.now();
  await first.kill();

  for (const { client, lease } of holders) {
    expect((await aLease(client)).isHeld).toBe(true);
    await untilOutlived(lease, killedAtMs);
    expect(lease.isHeld).toBe(true);
    expect(await lease.release()).toBe('released');
  }
});

test('leases go on when one of two controllers is cut off silently, and clients stay with the other', async () => {
  const { proxy, url, token, holders } = await twoControllers();
  const droppedAtMs = performance.now();
  proxy.drop();

  // This client begins with the controller that is cut off.
  const late = createLeasehold({ url, token, transport: 'http' });
  onTestFinished(() => late.close());
  expect((await aLease(late)).isHeld).toBe(true);
  for (const { lease } of holders) {
    await untilOutlived(lease, droppedAtMs);
    expect(lease.isHeld).toBe(true);
  }
  // From now on nothing is sent to the first controller, not even a health check.
  const lostBytesCount = proxy.lostBytesCount;
  for (const { client, lease } of holders) {
    expect((await aLease(client)).isHeld).toBe(true);
    expect(await lease.release()).toBe('released');
  }
  expect(proxy.lostBytesCount).toBe(lostBytesCount);
});
