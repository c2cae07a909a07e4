import { expect, test } from 'vitest';
import { acquire, acquired, openLeases } from '../testing/lease-fixture.ts';
import { passingTime, passWatched } from '../testing/passing-time.ts';

const TTL_MS = 60_000;

test('F7b an acquire just after a clock step is refused by the last holder, with the time left, as unconfirmed', async () => {
  const time = await passingTime();
  const { databaseUrl, clock } = time;
  const one = await openLeases({ databaseUrl, clock, clockWatch: undefined });
  await one.store.witness.look();
  await passWatched(time, 2 * TTL_MS, one);
  await acquired(one, { ttlMs: TTL_MS });

  await time.step(90_000);
  const early = await acquire(one, { holder: 'bob' });
  await passWatched(time, TTL_MS, one);
  const late = await acquire(one, { holder: 'bob' });

  expect(early).toMatchObject({ outcome: 'held', by: 'alice', isExpiryUnconfirmed: true });
  expect(early).toHaveProperty('remainingMs', TTL_MS);
  expect(late).toMatchObject({ outcome: 'granted' });
});
