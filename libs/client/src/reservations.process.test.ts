import { randomUUID } from 'node:crypto';
import { openTestStage, waitUntil, type FaultProxy, type Stage } from '@leasehold/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createLeasehold, type Leasehold } from './index.ts';

let stage: Stage;
let proxy: FaultProxy;
let operator: Leasehold;

beforeAll(async () => {
  stage = await openTestStage();
  proxy = await stage.front();
  operator = createLeasehold({ url: proxy.url, token: stage.credentials.operator });
  stage.onClose(() => operator.close());
});

afterAll(() => stage.close());

test('C37 a key is reserved once, and everybody learns where it lives', async () => {
  const key = ['games', randomUUID()];
  const before = await operator.reservations.resolve(key);

  const first = await operator.reservations.reserve(key);
  const again = await operator.reservations.reserve(key, { datacenter: 'local' });

  expect(before).toEqual({ outcome: 'not_found' });
  expect(first).toMatchObject({ outcome: 'reserved', datacenter: 'local' });
  expect(again).toEqual({ ...first, outcome: 'existing' });
  expect(await operator.reservations.resolve(key, { fresh: true })).toMatchObject({
    outcome: 'found',
    reservationId: first.reservationId,
    chain: [first.reservationId],
  });
  expect(await operator.reservations.get(key)).toMatchObject({ links: [{ state: 'pending' }] });
});

test('a lease that names the datacenter of the controller is renewed and released in it', async () => {
  const definition = operator.defineLease(['placed'], { ttlMs: 6_000 });
  const lease = await definition.acquire(randomUUID(), { datacenter: 'local', waitMs: 1_000 });
  const { expiresAt } = await seen(lease.key);

  await waitUntil(async () => (await seen(lease.key)).expiresAt > expiresAt);

  expect(lease.isHeld).toBe(true);
  expect(await lease.release()).toBe('released');
});

test('an environment and a lease in an unknown datacenter are refused at once', async () => {
  const asked = [
    operator.defineLease(['placed']).acquire('k', { datacenter: 'dc9' }),
    operator.environments.tryAcquire('prod', { action: 'deploy', datacenter: 'dc9' }),
  ];

  const refusal = { status: 'rejected', reason: { code: 'reservation.unknown_datacenter' } };
  expect(await Promise.allSettled(asked)).toMatchObject([refusal, refusal]);
});

/** The lease as the controller shows it. */
async function seen(key: string) {
  const view = await operator.api.leases.get.query({
    namespace: 'placed',
    name: key,
    datacenter: 'local',
  });
  if (view === null) throw new Error('the lease is not there');
  return view;
}
