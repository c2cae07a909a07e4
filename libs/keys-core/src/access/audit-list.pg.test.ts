import { expect, test } from 'vitest';
import type { AuditAction } from '../kernel/access.ts';
import { openKernel } from '../testing/kernel-fixture.ts';
import { countAudit, listAudit, writeAudit } from './sql/audit.ts';

test('acts are listed without sign-ins, with the names of people', async () => {
  const { store } = await openKernel();
  await store.general.$queryRaw`
    insert into person (id, email, name, role)
    values (gen_random_uuid(), 'ada@example.com', 'Ada Okafor', 'admin')
    returning id`;
  const write = (action: AuditAction, actor: string, detail?: Record<string, unknown>) =>
    writeAudit(store.general, { actor, role: 'admin', action, resource: 'drone:d', detail });
  await write('drones.drain', 'ada@example.com');
  await write('people.signIn', 'ada@example.com');
  await write('bulk.start', 'script', { total: 2 });

  const all = await listAudit(store.reads, { limit: 10 });
  const acts = await listAudit(store.reads, { signIns: false, limit: 10 });

  expect(all.items).toHaveLength(3);
  expect(acts.items).toMatchObject([
    { action: 'bulk.start', actor: 'script', actorName: null },
    { action: 'drones.drain', actor: 'ada@example.com', actorName: 'Ada Okafor' },
  ]);
});

test('the entries of all pages are counted, those alone that a filter leaves', async () => {
  const { store } = await openKernel();
  for (let drone = 1; drone <= 12; drone += 1) {
    const resource = `drone:d${String(drone)}`;
    await writeAudit(store.general, {
      actor: 'ada',
      role: 'admin',
      action: 'drones.drain',
      resource,
    });
  }
  const { items } = await listAudit(store.reads, { limit: 1 });
  const newest = items[0]?.at;

  expect(await countAudit(store.reads, {})).toEqual({ count: 12, isExact: true });
  expect(await countAudit(store.reads, { text: 'D1' })).toEqual({ count: 4, isExact: true });
  expect(await countAudit(store.reads, { windowMinutes: 60 })).toEqual({
    count: 12,
    isExact: true,
  });
  expect(await countAudit(store.reads, { from: newest })).toMatchObject({ isExact: true });
  expect(await countAudit(store.reads, { to: '2020-01-01T00:00:00Z' })).toMatchObject({ count: 0 });
});
