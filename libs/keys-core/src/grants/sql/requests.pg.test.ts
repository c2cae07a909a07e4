import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { MACHINE_CLOCK } from '../../testing/kernel-fixture.ts';
import { acquired, type Leases, openLeases, released } from '../../testing/lease-fixture.ts';
import { removeOldLeaseRows } from './retention.ts';

/** Lets records grow older, and removes what nobody needs any more. */
async function passHours({ store }: Leases, hours: number): Promise<void> {
  await store.general.$executeRaw`
    update lease_request set created_at = created_at - ${hours}::float8 * interval '1 hour'`;
  await removeOldLeaseRows(store.general, 30, {
    clock: MACHINE_CLOCK,
    onFailure: (_kind, error) => {
      throw error;
    },
  });
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
