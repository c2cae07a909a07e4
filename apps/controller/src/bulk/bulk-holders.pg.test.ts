import { randomUUID } from 'node:crypto';
import { KEY_LADDERS } from '@leasehold/keys-core';
import type { BulkPreview } from '@leasehold/keys-core/bulk';
import { waitUntil } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import {
  acquireLeases,
  bulkProgressWhen,
  connectStarted,
  startBulkAction,
} from '../testing/bulk.ts';
import { shareTestController, type TestController } from '../testing/test-controller.ts';
import { startTestDrone } from '../testing/test-drone.ts';
import { mutate } from '../testing/wire.ts';
import { refOf } from '../testing/wire-leases.ts';

describe('the holders of what is selected', () => {
  /** Each test has a namespace, or a drone and a program, of its own. */
  let on: TestController;
  shareTestController(
    (shared) => {
      on = shared;
    },
    { ladder: KEY_LADDERS.standard },
  );

  test('are counted where they hold it now, with the longest time that one may go on', async () => {
    const namespace = randomUUID();
    const { secret } = await on.token('client');
    const viewer = await on.token('viewer');
    const items = await acquireLeases(on, secret, 3, namespace);
    const [ended, ...held] = items;
    await mutate(on, 'leases.release', { secret, input: ended });
    const otherToken = { leaseId: held[0]?.leaseId, fencingToken: '1' };

    const preview = async (of: object[]): Promise<BulkPreview> =>
      (await mutate(on, 'bulk.preview', {
        secret: viewer.secret,
        input: { items: of },
      })) as BulkPreview;
    const found = await preview(items);

    expect(found.held.sort()).toEqual(held.map(({ leaseId }) => leaseId).sort());
    const [row] = await on.controller.store.general.$queryRaw<{ hard: number }[]>`
      select max(hard_after_ms)::int as hard from lease where namespace = ${namespace}`;
    expect(found.stopsWithinMs).toBe(row?.hard);
    expect(await preview([otherToken])).toEqual({ held: [], stopsWithinMs: 0 });
  });

  test.each(['graceful', 'force'] as const)(
    'of keys that were revoked (%s) have stopped when their drone reports it, and not before',
    async (mode) => {
      const { secret } = await on.token('client');
      const operator = await on.token('operator');
      const [droneId, program] = [randomUUID(), randomUUID()];
      const drone = await startTestDrone(on, { droneId, programs: [program] });
      const key = await connectStarted(on, secret, drone, program);

      const items = [refOf(key)];
      const bulkId = await startBulkAction(on, operator.secret, { action: 'revoke', mode, items });
      const carriedOut = await bulkProgressWhen(on, bulkId);
      await waitUntil(() => drone.messages.some(({ kind }) => kind === 'terminate'));
      await drone.report({ backendId: key.backendId, status: 'terminated' });
      const over = await bulkProgressWhen(on, bulkId, ({ stopping }) => stopping === 0);

      expect(carriedOut).toMatchObject({ state: 'done', done: 1, failedCount: 0, stopping: 1 });
      expect(Date.parse(carriedOut.stopsBy ?? '')).toBeGreaterThan(Date.now());
      expect(over.stopsBy).toBeNull();
    },
  );

  test('of leases that were ended by force count until their own deadline, also when others have them', async () => {
    const namespace = randomUUID();
    const { secret } = await on.token('client');
    const operator = await on.token('operator');
    const items = await acquireLeases(on, secret, 2, namespace);
    const bulkId = await startBulkAction(on, operator.secret, {
      action: 'revoke',
      mode: 'force',
      items,
    });
    await bulkProgressWhen(on, bulkId);

    await acquireLeases(on, secret, 1, namespace);
    const seen = await bulkProgressWhen(on, bulkId);
    await on.controller.store.general.$queryRaw`
      update lease_event set detail = detail || '{"stopsBy": "2020-01-01T00:00:00Z"}'
      where kind = 'revoked' and namespace = ${namespace} returning id`;
    const later = await bulkProgressWhen(on, bulkId);

    expect(seen.stopping).toBe(2);
    expect(later).toMatchObject({ stopping: 0, stopsBy: null });
  });
});
