import { randomUUID } from 'node:crypto';
import { startUrlProxy } from '@leasehold/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { acquireLeases, bulkProgressWhen, countEvents, startBulkAction } from '../testing/bulk.ts';
import { startTestController } from '../testing/test-controller.ts';
import { mutate } from '../testing/wire.ts';
import { acquireLease } from '../testing/wire-leases.ts';

describe('a bulk action', () => {
  test('whose controller dies is taken over: every grant is revoked once', async () => {
    const heir = await startTestController();
    const { proxy, url } = await startUrlProxy(heir.databaseUrl);
    onTestFinished(() => proxy.close());
    const on = await startTestController({ databaseUrl: url });
    onTestFinished(() => {
      proxy.heal();
    });
    const { secret } = await on.token('client');
    const operator = await on.token('operator');
    const items = await acquireLeases(on, secret, 400);
    const bulkId = await startBulkAction(on, operator.secret, {
      action: 'revoke',
      mode: 'force',
      items,
    });
    await bulkProgressWhen(heir, bulkId, ({ done }) => done > 0);

    // The controller is cut off from the database in the middle of a page, and releases nothing.
    proxy.refuse();
    const seen = await bulkProgressWhen(heir, bulkId);

    expect(seen).toMatchObject({ done: 400, failedCount: 0 });
    expect(await countEvents(heir, 'revoked')).toEqual({ events: 400, grants: 400 });
  });

  test('whose controller stops in good order continues at another one at once', async () => {
    const on = await startTestController();
    const heir = await startTestController({ databaseUrl: on.databaseUrl });
    const { secret } = await on.token('client');
    const operator = await on.token('operator');
    const items = await acquireLeases(on, secret, 400);
    const bulkId = await startBulkAction(on, operator.secret, { action: 'revoke', items });
    await bulkProgressWhen(heir, bulkId, ({ done }) => done > 0);

    await on.controller.close();
    const seen = await bulkProgressWhen(heir, bulkId);

    expect(seen).toMatchObject({ done: 400, failedCount: 0 });
    expect(await countEvents(heir, 'revoked')).toEqual({ events: 400, grants: 400 });
  });

  test('whose controller died between an act and its record counts the act as its own, once', async () => {
    const on = await startTestController();
    const { secret } = await on.token('client');
    const operator = await on.token('operator');
    const [own, foreign] = await acquireLeases(on, secret, 2);
    const { general } = on.controller.store;
    const bulkId = randomUUID();
    await general.$queryRaw`
      with made as (
        insert into bulk (id, state, action, mode, reason, actor, principal, role, total)
        values (${bulkId}::uuid, 'done', 'revoke', 'force', 'fire', 'test operator',
          ${operator.tokenId}, 'operator', 2)
        returning id
      )
      insert into bulk_item (bulk_id, place, lease_id, fencing_token)
      select m.id, i.place, i.lease_id::uuid, i.token::bigint
      from made m, (values
        (1, ${own?.leaseId ?? ''}, ${own?.fencingToken ?? ''}),
        (2, ${foreign?.leaseId ?? ''}, ${foreign?.fencingToken ?? ''})
      ) i (place, lease_id, token)
      returning place`;
    const revoke = (ref: typeof own, reason: string): Promise<unknown> =>
      mutate(on, 'leases.revoke', {
        secret: operator.secret,
        input: { leaseId: ref?.leaseId, mode: 'force', reason },
      });
    await revoke(own, 'fire');
    await revoke(foreign, 'something else');
    // The first lease has even been granted again by now.
    await acquireLease(on, secret, { key: 'k0' });

    await general.$queryRaw`update bulk set state = 'running' returning id`;
    const seen = await bulkProgressWhen(on, bulkId);

    expect(seen.failed).toEqual([{ leaseId: foreign?.leaseId, code: 'gone' }]);
    expect(await countEvents(on, 'revoked')).toEqual({ events: 2, grants: 2 });
  });
});
