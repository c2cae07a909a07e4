import { describe, expect, test } from 'vitest';
import { someoneWaits } from '../testing/coordinator-fixture.ts';
import { OPERATOR } from '../testing/keys-fixture.ts';
import { acquire, acquired, inLine, released, SERVICE } from '../testing/lease-fixture.ts';
import { openOperatedLeases } from '../testing/lease-operations-fixture.ts';
import { dropOldDeclarations } from './sql/declarations.ts';

const NAMESPACE = 'user.update';
const OTHER = { ...SERVICE, actor: 'other', principal: 'token-x' };

const declaring = (permits: { perKey: number; total?: number }) => ({
  declarations: [{ namespace: NAMESPACE, ttlMs: 30_000, permits }],
});

describe('the number of permits', () => {
  test('is what a service declares, and is shown with who has declared it', async () => {
    const on = await openOperatedLeases();
    await on.operations.declare(declaring({ perKey: 2, total: 10 }), SERVICE);
    await on.operations.declare(
      {
        declarations: [
          { namespace: NAMESPACE, ttlMs: 30_000 },
          { namespace: 'b', ttlMs: 30_000 },
        ],
      },
      OTHER,
    );

    const { items } = await on.operations.declared({ limit: 10 }, OPERATOR);

    expect(items).toMatchObject([
      { namespace: 'b', permits: null },
      { namespace: NAMESPACE, permits: { perKey: 2, total: 10, by: 'service' } },
    ]);
  });

  test('that another service declares differently is refused with both numbers and who has declared the one in force', async () => {
    const on = await openOperatedLeases();
    await on.operations.declare(declaring({ perKey: 2 }), SERVICE);

    const same = await on.operations.declare(declaring({ perKey: 2 }), OTHER);
    const differing = on.operations.declare(declaring({ perKey: 3 }), OTHER);

    expect(same).toEqual({ declared: 1 });
    await expect(differing).rejects.toMatchObject({
      code: 'lease.permits_differ',
      details: {
        namespace: NAMESPACE,
        declared: { perKey: 2, total: null },
        asked: { perKey: 3, total: null },
        declaredBy: 'service',
      },
    });
  });

  test('is changed by the service that has declared it, and what is held stays held', async () => {
    const on = await openOperatedLeases();
    await on.operations.declare(declaring({ perKey: 1 }), SERVICE);
    const held = await acquired(on, { mode: 'permit' });

    const before = await acquire(on, { mode: 'permit' });
    await on.operations.declare(declaring({ perKey: 2 }), SERVICE);
    const after = await acquire(on, { mode: 'permit' });

    expect([before.outcome, after.outcome, await released(on, held)]).toEqual([
      'held',
      'granted',
      'released',
    ]);
  });

  test('that an operator sets stays in force, whatever services declare, and those who wait get what is more', async () => {
    const on = await openOperatedLeases();
    await on.operations.declare(declaring({ perKey: 1 }), SERVICE);
    await acquired(on, { mode: 'permit' });
    const waiting = await inLine(on, 'waiting', { mode: 'permit' });

    const permits = { perKey: 2, total: null };
    const set = await on.operations.setPermits({ namespace: NAMESPACE, permits }, OPERATOR);
    const answer = await waiting.answer;
    await on.operations.declare(declaring({ perKey: 7 }), OTHER);
    const { items } = await on.operations.declared({ limit: 10 }, OPERATOR);

    expect(set).toEqual({ namespace: NAMESPACE, permits, by: OPERATOR.actor });
    expect(answer.outcome).toBe('granted');
    expect(items).toMatchObject([{ permits: { ...permits, by: OPERATOR.actor } }]);
  });

  test('is not passed by a service that asks for the lease alone', async () => {
    const on = await openOperatedLeases();
    await on.operations.declare(declaring({ perKey: 2 }), SERVICE);
    await acquired(on, { mode: 'permit' });

    const asked = acquire(on, { mode: 'exclusive' });

    await expect(asked).rejects.toMatchObject({
      code: 'request.invalid',
      details: { field: 'mode' },
    });
  });

  test('that an operator has set is not forgotten, although nobody declares it again', async () => {
    const on = await openOperatedLeases();
    const permits = { perKey: 2, total: null };
    await on.operations.setPermits({ namespace: NAMESPACE, permits }, OPERATOR);
    await on.operations.declare(
      { declarations: [{ namespace: 'old', ttlMs: 30_000, permits: { perKey: 3 } }] },
      SERVICE,
    );
    await on.store.general.$queryRaw`
      update lease_declaration set declared_at = declared_at - interval '400 days' returning 1`;

    const pass = { clock: on.store.clock, onFailure: () => undefined };
    const dropped = await dropOldDeclarations(on.store.general, 30, pass);

    const { items } = await on.operations.declared({ limit: 10 }, OPERATOR);
    expect(dropped).toBe(1);
    expect(items).toMatchObject([{ namespace: NAMESPACE, permits }]);
  });

  test('gets no total while permits exist that it would not count', async () => {
    const on = await openOperatedLeases();
    await on.operations.declare(declaring({ perKey: 2 }), SERVICE);
    await acquired(on, { mode: 'permit' });

    const permits = { perKey: 2, total: 5 };
    const differs = { code: 'lease.permits_differ' };
    await expect(
      on.operations.setPermits({ namespace: NAMESPACE, permits }, OPERATOR),
    ).rejects.toMatchObject(differs);
    await expect(
      on.operations.declare(declaring({ perKey: 2, total: 5 }), SERVICE),
    ).rejects.toMatchObject(differs);
  });

  test('gets no total from a service that waits while the first permit is being granted', async () => {
    const on = await openOperatedLeases();
    await on.operations.declare(declaring({ perKey: 2 }), SERVICE);

    let setting: Promise<unknown> | undefined;
    await on.store.general.$transaction(async (tx) => {
      await tx.$queryRaw`select 1 from lease_declaration for share`;
      const permits = { perKey: 2, total: 5 };
      setting = on.operations
        .setPermits({ namespace: NAMESPACE, permits }, OPERATOR)
        .catch((error: unknown) => error);
      await someoneWaits(on);
      await acquired(on, { mode: 'permit' });
    });

    expect(await setting).toMatchObject({ code: 'lease.permits_differ' });
  });

  test('is shown to those who look for the name, and who waits is shown with who holds a permit', async () => {
    const on = await openOperatedLeases();
    await on.operations.declare(declaring({ perKey: 1, total: 5 }), SERVICE);
    await acquired(on, { mode: 'permit', holder: 'one', name: 'searched' });
    await acquired(on, { mode: 'shared', holder: 'reader', namespace: 'document', name: 'sea' });
    await inLine(on, 'waiting', { mode: 'permit', name: 'searched' });
    const holders = async (filter: { contains?: string; prefix?: string; name?: string }) => {
      const { items } = await on.operations.list({ limit: 10, ...filter }, OPERATOR);
      return items.map(({ holder }) => holder).sort();
    };

    const { items: waiters } = await on.operations.contention({ limit: 10 }, OPERATOR);

    expect(await holders({ contains: 'arch' })).toEqual(['one']);
    // As it is once the names are filled: then an index of them finds the rare ones.
    await on.store.general
      .$queryRaw`update search_mark set walked_at = clock_timestamp() returning 1`;
    expect(await holders({ contains: 'arch' })).toEqual(['one']);
    expect(await holders({ contains: 'sea' })).toEqual(['one', 'reader']);
    expect(await holders({ prefix: 'sea' })).toEqual(['one', 'reader']);
    expect(await holders({ name: 'searched' })).toEqual(['one']);
    expect(waiters).toMatchObject([
      {
        waiter: 'waiting',
        mode: 'permit',
        holders: [{ holder: 'one', mode: 'permit' }],
        holderCount: 1,
        permits: { perKey: 1, total: 5 },
      },
    ]);
  });

  test('is shown with who holds permits: a list has each holder, and a lease all of them', async () => {
    const on = await openOperatedLeases();
    await on.operations.declare(declaring({ perKey: 2, total: 5 }), SERVICE);
    const one = await acquired(on, { mode: 'permit', holder: 'one' });
    await acquired(on, { mode: 'permit', holder: 'two' });
    await acquired(on, { mode: 'permit', holder: 'three', name: '43' });
    await acquired(on, { mode: 'shared', holder: 'reader', namespace: 'document', name: 'd' });

    const { items } = await on.operations.list({ limit: 10 }, OPERATOR);
    const shown = await on.operations.get({ namespace: NAMESPACE, name: '42' }, OPERATOR);
    const shared = await on.operations.get({ namespace: 'document', name: 'd' }, OPERATOR);
    await released(on, one);
    const after = await on.operations.get({ namespace: NAMESPACE, name: '42' }, OPERATOR);

    expect(items.map(({ name, holder, mode }) => [name, holder, mode].join(' ')).sort()).toEqual([
      '42 one permit',
      '42 two permit',
      '43 three permit',
      'd reader shared',
    ]);
    expect(shown).toMatchObject({
      name: '42',
      phase: 'held',
      pool: { kind: 'permit', used: 2, permits: 2, total: { used: 3, permits: 5 } },
    });
    expect(shown?.pool?.holders.map(({ holder }) => holder)).toEqual(['one', 'two']);
    expect(shared).toMatchObject({ holder: 'reader', pool: { kind: 'shared', used: 1 } });
    expect(after?.pool?.holders.map(({ holder }) => holder)).toEqual(['two']);
  });
});
