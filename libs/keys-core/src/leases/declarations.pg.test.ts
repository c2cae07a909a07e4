import { describe, expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { age } from '../testing/kernel-fixture.ts';
import { OPERATOR } from '../testing/keys-fixture.ts';
import { acquire, acquired, lineOf, released, SERVICE } from '../testing/lease-fixture.ts';
import { openOperatedLeases } from '../testing/lease-operations-fixture.ts';
import { createSlowDatabase } from '../testing/shifted-clock.ts';

const LIMITED = { ...OPERATOR, namespaces: ['a'] };

describe('declarations', () => {
  test('are shown by namespace, with the last declarer, to callers that may see them', async () => {
    const on = await openOperatedLeases();
    const other = { ...SERVICE, actor: 'other', principal: 'token-x' };
    const declare = (namespace: string, ttlMs: number, description?: string) => ({
      declarations: [{ namespace, ttlMs, description }],
    });

    await on.operations.declare(
      { declarations: ['b', 'a', 'a.c', 'a'].map((namespace) => ({ namespace, ttlMs: 30_000 })) },
      SERVICE,
    );
    await on.operations.declare(declare('a', 5_000, 'users'), other);

    const all = await on.operations.declared({ limit: 2 }, OPERATOR);
    const rest = await on.operations.declared({ limit: 2, cursor: all.nextCursor ?? '' }, OPERATOR);
    expect([...all.items, ...rest.items]).toMatchObject([
      { namespace: 'a', ttlMs: 5_000, description: 'users', declaredBy: 'other' },
      { namespace: 'a.c', ttlMs: 30_000, description: null, declaredBy: 'service' },
      { namespace: 'b' },
    ]);
    const limited = await on.operations.declared({ limit: 10 }, LIMITED);
    expect(limited.items.map(({ namespace }) => namespace)).toEqual(['a', 'a.c']);
    const one = await on.operations.declared({ limit: 10, namespace: 'a' }, OPERATOR);
    expect(one.items.map(({ namespace }) => namespace)).toEqual(['a']);
    await expect(on.operations.declare(declare('a', 999), SERVICE)).rejects.toMatchObject({
      code: 'lease.ttl_out_of_range',
    });
  });

  test('are refused as a whole when they exceed the caller’s quota; repeated ones do not count again', async () => {
    const on = await openOperatedLeases();
    const declare = (...namespaces: string[]): Promise<unknown> => {
      const declarations = namespaces.map((namespace) => ({ namespace, ttlMs: 30_000 }));
      return on.operations.declare({ declarations, ownMax: 2 }, SERVICE);
    };
    await declare('a', 'a.c');

    await expect(declare('a', 'a.d')).rejects.toMatchObject({
      code: 'quota.exceeded',
      details: { limit: 'declarations', max: 2 },
    });
    await declare('a', 'a.c');

    const shown = await on.operations.declared({ limit: 10 }, OPERATOR);
    expect(shown.items.map(({ namespace }) => namespace)).toEqual(['a', 'a.c']);
  });

  test('show how many of their leases are held now, and how many callers wait', async () => {
    const on = await openOperatedLeases({ databaseUrl: await createSlowDatabase() });
    const declarations = ['a', 'a.c'].map((namespace) => ({ namespace, ttlMs: 30_000 }));
    await on.operations.declare({ declarations }, SERVICE);
    await acquired(on, { namespace: 'a', name: 'one' });
    await acquired(on, { namespace: 'a', name: '42' });
    await acquired(on, { namespace: 'a.c' });
    await released(on, await acquired(on, { namespace: 'a', name: 'over' }));
    const lapsed = await acquired(on, { namespace: 'a', name: 'lapsed' });
    await age(on, lapsed.leaseId, 60_000);
    const cut = new AbortController();
    const waiting = acquire(
      on,
      { namespace: 'a', waitMs: 60_000 },
      { life: { signal: cut.signal, isAlive: () => true } },
    );
    waiting.catch(() => undefined);
    await waitUntil(async () => (await lineOf(on)).length === 1);

    const { items } = await on.operations.declared({ limit: 10 }, OPERATOR);

    expect(items).toMatchObject([
      { namespace: 'a', held: 2, waiting: 1 },
      { namespace: 'a.c', held: 1, waiting: 0 },
    ]);
    cut.abort();
    await expect(waiting).rejects.toThrow();
  });
});
