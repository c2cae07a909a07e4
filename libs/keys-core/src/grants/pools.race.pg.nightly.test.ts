import { describe, expect, test } from 'vitest';
import { seed } from '@leasehold/testing';
import { openKernel } from '../testing/kernel-fixture.ts';
import { declarePermits, setPermits } from '../testing/pool-fixture.ts';
import { beside, CONTROLLERS, notGrowing, raceFor } from '../testing/pool-races.ts';
import { createFreeRowRemover } from './index.ts';

const DAYS_MS = 2 * 24 * 3_600_000;

describe(`random workers on pools through ${String(CONTROLLERS)} controllers, seed ${String(seed())}`, () => {
  test('never more than the permits of a key are unexpired while a total comes and goes, and tokens grow', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2 });
    let changeCount = 0;

    const grants = await raceFor(
      kernel,
      (draw) => ({ name: ['a', 'b', 'c'][draw(3)] ?? 'a', mode: 'permit' }),
      async () => {
        changeCount += 1;
        await setPermits(kernel, { perKey: 2, total: changeCount % 2 === 0 ? null : 5 });
      },
    );

    const tooMany = grants.filter(
      (grant) => beside(grant, grants).filter(({ name }) => name === grant.name).length >= 2,
    );
    expect(changeCount).toBeGreaterThan(4);
    expect(grants.length).toBeGreaterThan(20);
    expect(tooMany).toEqual([]);
    expect(notGrowing(grants)).toEqual([]);
  });

  test('the own rows of keys whose permits are granted stay, while those of idle ones are deleted, and tokens grow', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2, total: 5 });
    const remover = createFreeRowRemover(kernel.store);
    let deletedCount = 0;
    const orphans: string[] = [];

    const grants = await raceFor(
      kernel,
      (draw) => ({ name: `n${String(draw(8))}`, mode: 'permit' }),
      async () => {
        // As if no key had been held for days, but those that a statement has locked: it waits for nobody.
        await kernel.store.general.$executeRaw`
          with own as materialized (
            select l.lease_id from lease l
            where l.pool = l.name and l.name <> chr(31)
            order by l.face, l.namespace, l.name
            for update skip locked
          )
          update lease l set fencing_token = l.fencing_token - ${DAYS_MS}::bigint
          from own where l.lease_id = own.lease_id`;
        deletedCount += await remover.runOnce();
        const rows = await kernel.store.general.$queryRaw<{ name: string }[]>`
          select s.pool as name from lease s
          where s.pool <> s.name and lease_unexpired(s.released_at, s.end_reason, s.expires_at)
            and not exists (select from lease l where l.name = s.pool and l.pool = l.name)`;
        orphans.push(...rows.map(({ name }) => name));
      },
    );

    expect(deletedCount).toBeGreaterThan(4);
    expect(grants.length).toBeGreaterThan(20);
    expect(orphans).toEqual([]);
    expect(notGrowing(grants)).toEqual([]);
  });
});
