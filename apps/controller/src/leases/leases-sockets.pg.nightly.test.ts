import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { openSocket } from '../testing/raw-socket.ts';
import { startTestController } from '../testing/test-controller.ts';
import { mutate } from '../testing/wire.ts';
import { acquireLease, lineFor, refOf, wanted } from '../testing/wire-leases.ts';

test('a caller is pinged often while it waits, and only then', async () => {
  const on = await startTestController();
  const { secret } = await on.token('client');
  const key = randomUUID();
  const lease = await acquireLease(on, secret, { key });
  const raw = await openSocket(on, secret);
  let pings = 0;
  raw.socket.on('ping', () => (pings += 1));
  const pingsIn = async (what: () => Promise<unknown>): Promise<number> => {
    const before = pings;
    await what();
    return pings - before;
  };
  const waiting = wanted({ key, holder: 'waits', waitMs: 60_000 });
  raw.send(1, 'mutation', 'leases.acquire', waiting);
  await waitUntil(async () => (await lineFor(on, key)).length === 1);

  const whileWaiting = await pingsIn(() => waitUntil(() => pings >= 4));
  await mutate(on, 'leases.release', { secret, input: refOf(lease) });
  await waitUntil(() => raw.repliesTo(1)[0]);
  // A second, silent socket is ended after six to eight seconds, in which the first gets a few pings.
  const beside = await openSocket(on, secret, { autoPong: false });
  await beside.ask(1, 'query', 'leases.list');
  const afterwards = await pingsIn(() =>
    waitUntil(() => beside.closedWith(), { timeoutMs: 15_000 }),
  );

  expect(whileWaiting).toBeGreaterThanOrEqual(4);
  expect(afterwards).toBeLessThanOrEqual(5);
});
