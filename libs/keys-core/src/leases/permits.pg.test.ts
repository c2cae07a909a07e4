import { describe, expect, test } from 'vitest';
import { grantWithin } from '../grants/index.ts';
import { compareFencingTokens, type Permits } from '../kernel/lease.ts';
import { someoneWaits } from '../testing/coordinator-fixture.ts';
import { OPERATOR } from '../testing/keys-fixture.ts';
import { aRequest, BY, UNAUDITED } from '../testing/kernel-fixture.ts';
import {
  acquire,
  acquired,
  codeOf,
  inLine,
  type Leases,
  released,
  SERVICE,
} from '../testing/lease-fixture.ts';
import { openOperatedLeases } from '../testing/lease-operations-fixture.ts';
import { createSlowDatabase } from '../testing/shifted-clock.ts';
import type { GrantedLease, LeaseListInput } from './lease-types.ts';
import { dropOldDeclarations } from './sql/declarations.ts';
import { readPermitShares } from './sql/permits.ts';

const NAMESPACE = 'user.update';
const OTHER = { ...SERVICE, actor: 'other', principal: 'token-x' };

const declaring = (permits: { perKey: number; total?: number | null }) => ({
  declarations: [{ namespace: NAMESPACE, ttlMs: 30_000, permits: { total: null, ...permits } }],
});

const setting = (permits: Permits) => ({ namespace: NAMESPACE, permits, reason: 'why' });

async function renewedAll(
  { service }: Pick<Leases, 'service'>,
  leases: readonly GrantedLease[],
): Promise<string[]> {
  const renewals = leases.map(({ leaseId, fencingToken }) => ({ leaseId, fencingToken }));
  const results = await service.heartbeat({ localTimeMs: 1, renewals }, SERVICE);
  return results.map(({ outcome }) => outcome);
}

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
    const set = await on.operations.setPermits(setting(permits), OPERATOR, BY);
    const answer = await waiting.answer;
    await on.operations.declare(declaring({ perKey: 7 }), OTHER);
    const { items } = await on.operations.declared({ limit: 10 }, OPERATOR);

    expect(set).toEqual({ namespace: NAMESPACE, permits, by: OPERATOR.actor });
    expect(answer.outcome).toBe('granted');
    expect(items).toMatchObject([{ permits: { ...permits, by: OPERATOR.actor } }]);
  });

  test('stays as it was when a change of an operator cannot be audited', async () => {
    const on = await openOperatedLeases();
    const permits = { perKey: 2, total: null };
    const set = (perKey: number, by = BY) =>
      on.operations.setPermits(setting({ perKey, total: null }), OPERATOR, by);
    await set(2);

    await expect(set(3, UNAUDITED)).rejects.toThrow();

    expect((await on.operations.declared({ limit: 10 }, OPERATOR)).items).toMatchObject([
      { permits },
    ]);
    expect(await on.store.general.$queryRaw`select * from audit`).toMatchObject([
      {
        ...BY,
        action: 'leases.setPermits',
        resource: `declaration:${NAMESPACE}`,
        reason: 'why',
        detail: { namespace: NAMESPACE, permits },
      },
    ]);
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
    await on.operations.setPermits(setting(permits), OPERATOR, BY);
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

  test.each([
    ['an operator', OPERATOR],
    ['the service that has declared it', SERVICE],
  ])(
    'gets and loses a total from %s while permits are held, which all count on',
    async (_who, by) => {
      const on = await openOperatedLeases();
      const change = (permits: { perKey: number; total: number | null }): Promise<unknown> =>
        by === OPERATOR
          ? on.operations.setPermits(setting(permits), OPERATOR, BY)
          : on.operations.declare(declaring(permits), SERVICE);
      const ask = async (name: string) => (await acquire(on, { mode: 'permit', name })).outcome;
      await change({ perKey: 2, total: null });
      const held = [];
      for (const name of ['a', 'a', 'b']) held.push(await acquired(on, { mode: 'permit', name }));
      const [one, two, three] = held as [GrantedLease, GrantedLease, GrantedLease];

      await change({ perKey: 2, total: 3 });
      const whileFull = await ask('b');
      const renewed = await renewedAll(on, held);
      await released(on, one);
      const next = await acquired(on, { mode: 'permit', name: 'b' });
      await change({ perKey: 2, total: null });
      const without = [await ask('b'), await ask('a'), await ask('a'), await ask('c')];
      const last = await acquired(on, { mode: 'permit', name: 'c' });

      expect(whileFull).toBe('held');
      expect(renewed).toEqual(['renewed', 'renewed', 'renewed']);
      expect(without).toEqual(['held', 'granted', 'held', 'granted']);
      expect(
        await Promise.all([two, three, next, last].map((lease) => released(on, lease))),
      ).toEqual(['released', 'released', 'released', 'released']);
      const tokens = [one, two, three, next, last].map(({ fencingToken }) => fencingToken);
      expect(tokens).toEqual(tokens.toSorted(compareFencingTokens));
    },
  );

  test('counts a permit that is being granted when a total comes', async () => {
    const on = await openOperatedLeases();
    const permits = { perKey: 2, total: 2 };
    await on.operations.declare(declaring({ perKey: 2 }), SERVICE);
    await acquired(on, { mode: 'permit' });

    let change: Promise<unknown> | undefined;
    const granting = await on.store.guests.$transaction(async (tx) => {
      const request = aRequest({ namespace: NAMESPACE, name: '42', mode: 'permit' });
      const outcome = await grantWithin(on.store, tx, request);
      change = on.operations.setPermits(setting(permits), OPERATOR, BY);
      await someoneWaits(on);
      return outcome?.outcome;
    });
    await change;
    const answer = await acquire(on, { mode: 'permit', name: '43' });

    expect(granting).toBe('granted');
    expect(answer).toMatchObject({ outcome: 'held', pool: { total: { used: 2, permits: 2 } } });
  });

  test('gets no total while fenced work keeps a permit, and the operator is told to try again', async () => {
    const on = await openOperatedLeases();
    await on.operations.declare(declaring({ perKey: 2 }), SERVICE);
    const { leaseId } = await acquired(on, { mode: 'permit' });
    const permits = { perKey: 2, total: 5 };

    const during = await on.store.guests.$transaction(async (tx) => {
      await tx.$queryRaw`select 1 from lease where lease_id = ${leaseId}::uuid for key share`;
      return codeOf(on.operations.setPermits(setting(permits), OPERATOR, BY));
    });
    const after = await on.operations.setPermits(setting(permits), OPERATOR, BY);

    expect(during).toBe('grant.contended');
    expect(after.permits).toEqual(permits);
  });

  test('is shown to those who look for the name, and who waits is shown with who holds a permit', async () => {
    const on = await openOperatedLeases({ databaseUrl: await createSlowDatabase() });
    await on.operations.declare(declaring({ perKey: 1, total: 5 }), SERVICE);
    await acquired(on, { mode: 'permit', holder: 'one', name: 'searched' });
    await acquired(on, { mode: 'shared', holder: 'reader', namespace: 'document', name: 'sea' });
    await inLine(on, 'waiting', { mode: 'permit', name: 'searched' });
    const holders = async (filter: Partial<LeaseListInput>) => {
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
    const inNamespace = { namespace: NAMESPACE, includeChildren: false };
    expect(await holders({ ...inNamespace, name: 'searched' })).toEqual(['one']);
    expect(await holders({ ...inNamespace, prefix: 'sea' })).toEqual(['one']);
    expect(await holders({ ...inNamespace, prefix: 'sea', holder: 'one' })).toEqual(['one']);
    expect(await on.operations.count({ ...inNamespace, prefix: 'sea' }, OPERATOR)).toMatchObject({
      count: 1,
    });
    expect(await holders({ ...inNamespace, prefix: 'other' })).toEqual([]);
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

test('the share of a total that is in use is read by namespace, the largest first', async () => {
  const on = await openOperatedLeases();
  const declarations = [
    { namespace: 'half', ttlMs: 30_000, permits: { perKey: 2, total: 2 } },
    { namespace: 'full', ttlMs: 30_000, permits: { perKey: 1, total: 1 } },
    { namespace: 'unlimited', ttlMs: 30_000, permits: { perKey: 1, total: null } },
  ];
  await on.operations.declare({ declarations }, SERVICE);
  for (const { namespace } of declarations) await acquired(on, { namespace, mode: 'permit' });

  const shares = await readPermitShares(on.store.general);

  expect(Object.entries(shares)).toEqual([
    ['full', 1],
    ['half', 0.5],
  ]);
});
