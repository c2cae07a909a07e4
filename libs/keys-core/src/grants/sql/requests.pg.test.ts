import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { acquired, type Leases, openLeases, released } from '../../testing/lease-fixture.ts';
import { createOldRequestRemover, OLD_REQUESTS_EVERY_MS } from './requests.ts';

/** Lets records grow older, and removes what nobody needs any more. */
async function passHours({ store }: Leases, hours: number): Promise<void> {
  await store.general.$executeRaw`
    update lease_request set created_at = created_at - ${hours}::float8 * interval '1 hour'`;
  await createOldRequestRemover(store).runOnce();
}

test('I7 the answer to a request is kept for 24 hours, and no longer', async () => {
  const one = await openLeases();
  const idempotencyKey = randomUUID();
  const first = await acquired(one, { idempotencyKey });
  await released(one, first);

  await passHours(one, 23.9);
  const again = await acquired(one, { idempotencyKey });
  await passHours(one, 0.2);
  const afterADay = await acquired(one, { idempotencyKey });

  expect(again.leaseId).toBe(first.leaseId);
  expect(afterADay.leaseId).not.toBe(first.leaseId);
});

/** About four thousand records of two days ago, on more than sixty pages. */
async function recordsOfTwoDaysAgo({ store }: Leases): Promise<void> {
  await store.general.$executeRaw`
    insert into lease_request (id, answer, created_at)
    select lease_request_id('p', i::text), jsonb_build_object('a', repeat('x', 150)), clock_timestamp() - interval '2 days'
    from generate_series(1, 4000) i`;
}

async function recordCount({ store }: Leases): Promise<number> {
  const rows = await store.general.$queryRaw<{ count: number }[]>`
    select count(*)::int as count from lease_request`;
  return rows[0]?.count ?? NaN;
}

test('a table too large for one round is walked through in sixty, wherever they begin', async () => {
  const one = await openLeases();
  await recordsOfTwoDaysAgo(one);
  const remover = createOldRequestRemover(one.store, 1);
  const left: number[] = [];

  for (let round = 1; round <= 60; round += 1) {
    await remover.runOnce();
    left.push(await recordCount(one));
  }

  expect(left[0]).toBeGreaterThan(0);
  expect(left.at(-1)).toBe(0);
});

test('a round that takes until the next is due reports more, and the next continues from there', async () => {
  const one = await openLeases();
  await recordsOfTwoDaysAgo(one);
  let nowMs = 0;
  // Two statements of a thousand records fit into a round. Before each the clock is read three times.
  const clock = { ...one.store.clock, nowMs: () => (nowMs += OLD_REQUESTS_EVERY_MS / 6) };
  const remover = createOldRequestRemover({ ...one.store, clock });
  const more: boolean[] = [];

  do {
    more.push(false);
    await remover.runOnce(undefined, () => more.splice(-1, 1, true));
  } while (more.at(-1) === true);

  expect(more).toEqual([true, true, false]);
  expect(await recordCount(one)).toBe(0);
});
