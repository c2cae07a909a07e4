import { waitUntil } from '@leasehold/testing';
import { expect, test } from 'vitest';
import { startBulkAction } from './testing/bulk.ts';
import { startTestController } from './testing/test-controller.ts';
import { acquireLease, refOf, wanted } from './testing/wire-leases.ts';
import { mutate, query } from './testing/wire.ts';

test('H-restore an operator sees why grants are held off, and ends that with a reason, which is audited', async () => {
  const on = await startTestController();
  const { secret } = await on.token('client');
  const operator = (await on.token('operator')).secret;
  await acquireLease(on, secret);
  const reason = 'all drones were restarted';

  // As in a copy from before this controller: its witness row is missing.
  await on.controller.store.general.$executeRaw`delete from database_witness`;
  const refused = await mutate(on, 'leases.acquire', { secret, input: wanted() });

  expect(refused).toBe('grant.hold_off');
  const holdOff = await waitUntil(() => query(on, 'holdOff.get', { secret: operator, input: {} }));
  expect(holdOff).toMatchObject({ cause: 'controller' });
  expect(await query(on, 'stats.overview', { secret: operator, input: {} })).toMatchObject({
    holdOff: { cause: 'controller' },
  });
  await mutate(on, 'holdOff.end', { secret: operator, input: { reason } });
  expect(await query(on, 'holdOff.get', { secret: operator, input: {} })).toBeNull();
  await acquireLease(on, secret);
  expect(
    await query(on, 'audit.list', { secret: operator, input: { action: 'holdOff.end' } }),
  ).toMatchObject({ items: [{ reason, resource: 'database' }] });
});

test('H-restore a bulk action that cannot get its lease is refused, and nothing is recorded', async () => {
  const on = await startTestController();
  const { secret } = await on.token('client');
  const operator = await on.token('operator');
  const items = [refOf(await acquireLease(on, secret))];
  await on.controller.store.general.$executeRaw`delete from database_witness`;

  const refused = await startBulkAction(on, operator.secret, { action: 'revoke', items });

  expect(refused).toBe('grant.hold_off');
  expect(await on.controller.store.general.$queryRaw`select id from bulk`).toEqual([]);
});
