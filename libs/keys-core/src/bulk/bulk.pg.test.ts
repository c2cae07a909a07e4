import { randomUUID } from 'node:crypto';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { GrantRef } from '../kernel/lease.ts';
import { fillDatabase, heldLeases } from '../testing/explaining.ts';
import { granted, openKernel, type Kernel } from '../testing/kernel-fixture.ts';
import {
  abortBulk,
  readBulk,
  startBulk,
  type BulkOrder,
  finishBulk,
  mayGoOn,
  readOpenBulks,
  readOpenItems,
  recordItems,
} from './sql.ts';
import { fragment } from '../postgres/sql.ts';

function anOrder(change: Partial<BulkOrder> = {}): BulkOrder {
  return {
    bulkId: randomUUID(),
    action: 'revoke',
    mode: 'graceful',
    reason: 'why',
    actor: 'olga',
    principal: 'person:1',
    role: 'operator',
    source: '10.0.0.1',
    namespaces: null,
    ...change,
  };
}

const ITEM = { leaseId: randomUUID(), fencingToken: '1' };
const BY = { actor: 'olga', role: 'operator', source: null };

async function start(
  { store }: Kernel,
  items: readonly GrantRef[] = [ITEM],
): Promise<{ order: BulkOrder }> {
  const order = anOrder({ principal: await aPrincipal(store) });
  expect(await startBulk(store.general, { ...order, items })).toBe(true);
  return { order };
}

/** A person who may start bulk actions. */
async function aPrincipal({ general }: Kernel['store']): Promise<string> {
  const [person] = await general.$queryRaw<{ id: string }[]>`
    insert into person (id, email, name, role, joined_at)
    select i, i || '@example.com', 'Olga', 'operator', clock_timestamp() from gen_random_uuid() i
    returning id::text`;
  return `person:${person?.id ?? ''}`;
}

/** The lease of the controller that carries it out. */
function atWork(kernel: Kernel, { bulkId }: BulkOrder): ReturnType<typeof granted> {
  return granted(kernel, { namespace: 'leasehold', name: `bulk:${bulkId}` });
}

describe('bulk actions in the database', () => {
  test('of sixteen started at once, ten are accepted', async () => {
    const kernel = await openKernel();
    const other = await openKernel({ databaseUrl: kernel.databaseUrl });

    const started = await Promise.all(
      Array.from({ length: 16 }, (_, at) =>
        startBulk((at % 2 === 0 ? kernel : other).store.general, { ...anOrder(), items: [ITEM] }),
      ),
    );

    expect(started.filter(Boolean)).toHaveLength(10);
  });

  test('ten thousand items are recorded in one call', async () => {
    const kernel = await openKernel();
    const items = Array.from({ length: 10_000 }, () => ({ ...ITEM, leaseId: randomUUID() }));

    const { order } = await start(kernel, items);

    expect(await readBulk(kernel.store.general, order.bulkId)).toMatchObject({
      total: 10_000,
      done: 0,
      state: 'running',
      isAtWork: false,
    });
  });

  test('one whose lease no controller holds is open, and interrupted unless it was just started', async () => {
    const kernel = await openKernel();
    const { general } = kernel.store;
    const { order } = await start(kernel);
    const shown = async () => (await readBulk(general, order.bulkId))?.state;

    const first = await shown();
    await general.$executeRaw`update bulk set started_at = started_at - interval '6 seconds'`;
    const later = await shown();
    const open = await readOpenBulks(general);
    await atWork(kernel, order);

    expect([first, later]).toEqual(['running', 'interrupted']);
    expect(open).toEqual([order]);
    expect(await readBulk(general, order.bulkId)).toMatchObject({
      state: 'running',
      isAtWork: true,
    });
    expect(await readOpenBulks(general)).toEqual([]);
  });

  test('an aborted one is never open and does not continue', async () => {
    const kernel = await openKernel();
    const { general } = kernel.store;
    const { order } = await start(kernel);
    const before = await mayGoOn(general, order.bulkId);
    await abortBulk(general, order.bulkId, BY);

    expect(before).toBe(true);
    expect(await mayGoOn(general, order.bulkId)).toBe(false);
    expect(await readOpenBulks(general)).toEqual([]);
  });

  test.each([
    ['disabled', fragment`update person set disabled_at = clock_timestamp()`],
    ['role', fragment`update person set role = 'client'`],
    ['limited', fragment`update person set namespaces = '{games.eu}'`],
    ['unknown', fragment`delete from person`],
  ])(
    'one whose starter lost the right to it (%s) is aborted, and the audit records why',
    async (cause, change) => {
      const kernel = await openKernel();
      const { general } = kernel.store;
      const { order } = await start(kernel);

      await general.$executeRaw(change);

      expect(await mayGoOn(general, order.bulkId)).toBe(false);
      expect(await mayGoOn(general, order.bulkId)).toBe(false);
      expect((await readBulk(general, order.bulkId))?.state).toBe('aborted');
      expect(
        await general.$queryRaw`
        select actor, detail from audit where action = 'bulk.abort' order by id`,
      ).toMatchObject([
        { actor: 'controller', detail: { cause, startedBy: 'olga', done: 0, total: 1 } },
      ]);
    },
  );

  test('an item is recorded once, counted once and audited once, even if it is reported twice', async () => {
    const kernel = await openKernel();
    const { general } = kernel.store;
    const { order } = await start(kernel, [ITEM, { ...ITEM, leaseId: randomUUID() }]);
    const outcomes = [
      { place: 1, code: null },
      { place: 2, code: 'gone' },
    ];

    await Promise.all(
      Array.from({ length: 8 }, () => recordItems(general, order.bulkId, outcomes)),
    );
    await finishBulk(general, order.bulkId);

    expect(await readBulk(general, order.bulkId)).toMatchObject({
      state: 'done',
      done: 2,
      failedCount: 1,
      failed: [{ code: 'gone' }],
    });
    const audited = await general.$queryRaw<{ action: string }[]>`
      select action from audit order by id`;
    expect(audited.map(({ action }) => action)).toEqual(['bulk.start']);
  });

  test('one is not done while an item is open, and an abort after that changes nothing', async () => {
    const kernel = await openKernel();
    const { general } = kernel.store;
    const { order } = await start(kernel);

    await finishBulk(general, order.bulkId);
    const early = await readBulk(general, order.bulkId);
    await recordItems(general, order.bulkId, [{ place: 1, code: 'gone' }]);
    await finishBulk(general, order.bulkId);

    expect(early?.state).toBe('running');
    expect(await abortBulk(general, order.bulkId, BY)).toBe(false);
    expect(await abortBulk(general, randomUUID(), BY)).toBeUndefined();
  });

  test('only the very grant that was chosen counts as in force', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel);
    const { order } = await start(kernel, [
      { leaseId: grant.leaseId, fencingToken: grant.fencingToken },
      { leaseId: grant.leaseId, fencingToken: '1' },
      ITEM,
    ]);

    const items = await readOpenItems(kernel.store.general, order, { place: 0, limit: 50 });

    expect(items.map((item) => item.isInForce)).toEqual([true, false, false]);
    expect(items[2]?.resource).toBeNull();
  });

  test('reading a page of items scans no whole table', async () => {
    const kernel = await openKernel();
    const { explaining, close } = await fillDatabase(
      kernel.databaseUrl,
      `${heldLeases(20_000)}
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor)
      select l.face, l.namespace, l.name, l.lease_id, l.fencing_token, 'granted', 'h' from lease l;
      insert into bulk (id, action, reason, actor, principal, role, total)
      select gen_random_uuid(), 'revoke', 'r', 'a', 'p', 'operator', 1000 from generate_series(1, 10);
      insert into bulk_item (bulk_id, place, lease_id, fencing_token)
      select b.id, i, gen_random_uuid(), i from bulk b, generate_series(1, 1000) i`,
    );
    onTestFinished(close);
    const { sql, plans } = explaining();

    await readOpenItems(sql, anOrder(), { place: 0, limit: 50 });

    expect(plans).toHaveLength(1);
    expect(plans[0]).not.toMatch(/Seq Scan on (?:lease|lease_event|bulk_item)\b/u);
  });
});
