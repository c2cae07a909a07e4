import { describe, expect, test } from 'vitest';
import { seed } from '@leasehold/testing';
import type { GrantRequest } from '../kernel/lease.ts';
import { aRequest, openKernel } from '../testing/kernel-fixture.ts';
import { declarePermits } from '../testing/pool-fixture.ts';
import { beside, CONTROLLERS, notGrowing, raceFor } from '../testing/pool-races.ts';

describe(`random workers on pools through ${String(CONTROLLERS)} controllers, seed ${String(seed())}`, () => {
  test('never more than the permits of a key, nor than all together, are unexpired, and tokens grow', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2, total: 5 });

    const grants = await raceFor(kernel, (draw) => ({
      name: ['a', 'b', 'c'][draw(3)] ?? 'a',
      mode: 'permit',
    }));

    const tooMany = grants.filter((grant) => {
      const others = beside(grant, grants);
      return others.length >= 5 || others.filter(({ name }) => name === grant.name).length >= 2;
    });
    expect(grants.length).toBeGreaterThan(60);
    expect(tooMany).toEqual([]);
    expect(notGrowing(grants)).toEqual([]);
    expect(grants.some((grant) => beside(grant, grants).length === 4)).toBe(true);
  });

  test('never is a lease held alone beside anybody who shares it, and tokens grow', async () => {
    const kernel = await openKernel();

    const grants = await raceFor(kernel, (draw) => ({
      // Enough of them that each is free now and then, and some workers meet at each.
      name: `n${String(draw(6))}`,
      mode: draw(2) === 0 ? undefined : 'shared',
    }));

    const ofBoth = grants.filter((grant) =>
      beside(grant, grants).some(
        ({ name, mode }) =>
          name === grant.name && (mode === 'exclusive' || grant.mode === 'exclusive'),
      ),
    );
    expect(grants.length).toBeGreaterThan(60);
    expect(ofBoth).toEqual([]);
    expect(notGrowing(grants)).toEqual([]);
    expect(grants.some(({ mode }) => mode === 'exclusive')).toBe(true);
    expect(
      grants.some((grant) => beside(grant, grants).some(({ name }) => name === grant.name)),
    ).toBe(true);
  });
});

test('a pool whose declaration is being changed is opened by a later try, and keeps no other pool back', async () => {
  const kernel = await openKernel();
  const permit = (namespace: string): GrantRequest => aRequest({ namespace, mode: 'permit' });
  for (const namespace of ['a', 'b']) await declarePermits(kernel, { perKey: 1 }, namespace);

  const [changed, other] = await kernel.store.general.$transaction(async (tx) => {
    await tx.$queryRaw`select namespace from lease_declaration where namespace = 'a' for update`;
    return Promise.all([
      kernel.leases.grant(permit('a')).catch((error: unknown) => error),
      kernel.leases.grant(permit('b')),
    ]);
  });

  expect(changed).toMatchObject({ code: 'grant.contended' });
  expect(other.outcome).toBe('granted');
  expect((await kernel.leases.grant(permit('a'))).outcome).toBe('granted');
});
