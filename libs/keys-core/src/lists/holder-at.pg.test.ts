import { describe, expect, test } from 'vitest';
import { createTestDatabase } from '@leasehold/testing';
import { readFactsAround } from '../events/index.ts';
import { revoke } from '../grants/sql/revoke.ts';
import type { Caller, HolderAt } from '../kernel/face-types.ts';
import type { Grant } from '../kernel/lease.ts';
import type { Face } from '../kernel/resource.ts';
import { fillDatabase } from '../testing/explaining.ts';
import { age, granted, type Kernel, openKernel, releaseOf } from '../testing/kernel-fixture.ts';
import { declarePermits } from '../testing/pool-fixture.ts';
import { holderAtMoment } from './index.ts';

const VIEWER: Caller = { principal: 'v', actor: 'v', role: 'viewer', namespaces: null };
const HOUR_MS = 3_600_000;

/** What a viewer is told of `thing`, so many hours ago. */
async function hoursAgo(
  { store }: Kernel,
  hours: number,
  of: { readonly face?: Face; readonly caller?: Caller } = {},
): Promise<HolderAt> {
  const resource = { face: of.face ?? 'lease', namespace: 'test', name: 'thing' } as const;
  const at = new Date(Date.now() - hours * HOUR_MS).toISOString();
  return holderAtMoment(store, { resource, caller: of.caller ?? VIEWER }, at);
}

/** Moves the events into the past, the newest to an hour ago and each older one an hour before it. */
async function spreadOverHours({ store }: Kernel): Promise<void> {
  await store.general.$executeRaw`
    update lease_event e set at = now() - n.place * interval '1 hour'
    from (select id, row_number() over (order by id desc) as place from lease_event) n
    where e.id = n.id`;
}

async function revokeAs(
  { store }: Kernel,
  { face, leaseId }: Grant,
  mode: 'graceful' | 'force',
): Promise<void> {
  const request = { leaseId, mode, abandon: false, actor: 'ada', reason: 'it hangs' };
  await revoke(store.general, face, [{ ...request, namespaces: null }]);
}

describe('who held it at a moment', () => {
  test('is the holder of the grant of that moment, with its own token and how it ended', async () => {
    const kernel = await openKernel();
    const first = await granted(kernel, { holder: 'alice' });
    await kernel.leases.release('lease', releaseOf(first));
    const second = await granted(kernel, { holder: 'bob' });
    await revokeAs(kernel, second, 'force');
    const third = await granted(kernel, { holder: 'carol' });
    await kernel.leases.release('lease', releaseOf(third));
    await spreadOverHours(kernel);
    await age(kernel, third.leaseId, 2 * HOUR_MS);

    expect(await hoursAgo(kernel, 5.5)).toMatchObject({
      phase: 'held',
      grant: { holder: 'alice', fencingToken: first.fencingToken, end: { kind: 'released' } },
    });
    expect(await hoursAgo(kernel, 4.5)).toMatchObject({
      phase: 'free',
      grant: { holder: 'alice' },
    });
    expect(await hoursAgo(kernel, 3.5)).toMatchObject({
      phase: 'held',
      grant: {
        holder: 'bob',
        fencingToken: second.fencingToken,
        leaseId: second.leaseId,
        end: { kind: 'revoked', actor: 'ada', reason: 'it hangs' },
      },
    });
    expect(await hoursAgo(kernel, 1.5)).toMatchObject({
      phase: 'held',
      grant: { holder: 'carol', fencingToken: third.fencingToken },
    });
    expect(await hoursAgo(kernel, 0.5)).toMatchObject({
      phase: 'free',
      grant: { holder: 'carol', end: { kind: 'released', actor: 'alice' } },
    });
  });

  test('of a grant that lasts is its holder, expiring once its renewal was blocked', async () => {
    const kernel = await openKernel();
    const grant = await granted(kernel, { ladder: { ...LONG } });
    await revokeAs(kernel, grant, 'graceful');
    await spreadOverHours(kernel);
    await kernel.store.general.$executeRaw`
      update lease set granted_at = granted_at - interval '2 hours'`;

    expect(await hoursAgo(kernel, 1.5)).toMatchObject({
      phase: 'held',
      grant: { holder: 'alice', until: null, end: null, blocked: null },
    });
    expect(await hoursAgo(kernel, 0.5)).toMatchObject({
      phase: 'expiring',
      grant: { until: null, blocked: { actor: 'ada', reason: 'it hangs' } },
    });
  });

  test('of a grant whose event is a millisecond later than its row lasts, in that millisecond too', async () => {
    const kernel = await openKernel();
    const { leaseId } = await granted(kernel, { holder: 'alice' });
    const [row] = await kernel.store.general.$queryRaw<{ at: string }[]>`
      update lease_event e set at = l.granted_at + interval '1 ms'
      from lease l
      where e.lease_id = ${leaseId} and l.lease_id = e.lease_id
      returning to_json(l.granted_at) #>> '{}' as at`;
    const resource = { face: 'lease', namespace: 'test', name: 'thing' } as const;

    const answer = await holderAtMoment(
      kernel.store,
      { resource, caller: VIEWER },
      String(row?.at),
    );

    expect(answer).toMatchObject({ phase: 'held', grant: { holder: 'alice', until: null } });
  });

  test('of a grant that ran out, and whose end nobody has recorded, ends at its expiry', async () => {
    const kernel = await openKernel();
    const { leaseId } = await granted(kernel);
    await age(kernel, leaseId, HOUR_MS);

    expect(await hoursAgo(kernel, 0.995)).toMatchObject({ phase: 'held', grant: { leaseId } });
    expect(await hoursAgo(kernel, 0.5)).toMatchObject({
      phase: 'free',
      grant: { leaseId, end: { kind: 'expired' } },
    });
  });

  test('of a key that was ended by force is expiring while its backend may run', async () => {
    const kernel = await openKernel();
    const key = await granted(kernel, { face: 'key' });
    await revokeAs(kernel, key, 'force');
    await spreadOverHours(kernel);
    const stopsBy = new Date(Date.now() - 0.5 * HOUR_MS).toISOString();
    await kernel.store.general.$executeRaw`
      update lease_event set detail = detail || jsonb_build_object('stopsBy', ${stopsBy}::text)
      where kind = 'revoked'`;
    await kernel.store.general.$executeRaw`
      update lease set granted_at = granted_at - interval '2 hours'`;

    const at = async (hours: number) => (await hoursAgo(kernel, hours, { face: 'key' })).phase;
    expect([await at(1.5), await at(0.75), await at(0.25)]).toEqual(['held', 'expiring', 'free']);
    expect((await hoursAgo(kernel, 0.75, { face: 'key' })).grant?.fencingToken).toBe(
      key.fencingToken,
    );
  });

  test('of permits are all who had one then, each with its end, also after another has its slot', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2 });
    const alice = await granted(kernel, { mode: 'permit', holder: 'alice' });
    const bob = await granted(kernel, { mode: 'permit', holder: 'bob' });
    await kernel.leases.release('lease', releaseOf(alice));
    const carol = await granted(kernel, { mode: 'permit', holder: 'carol', ladder: { ...LONG } });
    await revokeAs(kernel, bob, 'force');
    await spreadOverHours(kernel);
    await kernel.store.general.$executeRaw`
      update lease set granted_at = granted_at - interval '2 hours' where lease_id = ${carol.leaseId}::uuid`;

    const holders = async (hours: number) => {
      const { phase, sharing } = await hoursAgo(kernel, hours);
      return [phase, ...(sharing?.holders ?? []).map(({ holder }) => holder)];
    };
    expect(await holders(4.5)).toEqual(['held', 'alice']);
    expect(await holders(3.5)).toEqual(['held', 'alice', 'bob']);
    expect(await holders(2.5)).toEqual(['held', 'bob']);
    expect(await holders(1.5)).toEqual(['held', 'bob', 'carol']);
    expect(await holders(0.5)).toEqual(['held', 'carol']);
    expect((await hoursAgo(kernel, 1.5)).sharing?.holders).toMatchObject([
      { fencingToken: bob.fencingToken, end: { kind: 'revoked', reason: 'it hangs' } },
      { fencingToken: carol.fencingToken, end: null, until: null },
    ]);
    await kernel.leases.release('lease', releaseOf(carol));
    await kernel.store.general.$executeRaw`
      update lease_event set at = at - interval '1 second'
      where lease_id = ${carol.leaseId}::uuid and kind = 'released'`;
    expect(await hoursAgo(kernel, 0)).toMatchObject({
      phase: 'free',
      grant: { holder: 'carol', end: { kind: 'released' } },
      sharing: { holderCount: 0 },
    });
  });

  test('of a permit that ran out, and whose end nobody has recorded, ends at its expiry', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2 });
    const { leaseId } = await granted(kernel, { mode: 'permit' });
    await kernel.store.general.$executeRaw`
      update lease_event set at = at - interval '1 hour' where lease_id = ${leaseId}::uuid`;
    await age(kernel, leaseId, HOUR_MS);

    expect(await hoursAgo(kernel, 0.995)).toMatchObject({
      phase: 'held',
      sharing: { holders: [{ leaseId }] },
    });
    expect(await hoursAgo(kernel, 0.5)).toMatchObject({
      phase: 'free',
      grant: { leaseId, end: { kind: 'expired' } },
      sharing: { holderCount: 0 },
    });
  });

  test('of permits is said to be incomplete where more were granted than are looked at', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 2 });
    const first = await granted(kernel, { mode: 'permit', holder: 'first' });
    await kernel.store.general.$executeRaw`
      -- All before the moment that is asked for, by whichever clock.
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, at, detail)
      select 'lease', 'test', 'thing', md5(i::text)::uuid, i, k.kind, 'a',
        (select max(e.at) from lease_event e), '{"holder":"short","mode":"permit"}'
      from generate_series(1, 1000) i
      cross join (values ('granted'), ('released')) k (kind)
      order by i, k.kind`;

    expect((await hoursAgo(kernel, 0)).sharing).toMatchObject({
      isComplete: false,
      holderCount: 1,
      holders: [{ leaseId: first.leaseId }],
    });
  });

  test('is not known before what is kept, except for a grant whose end is kept', async () => {
    const kernel = await openKernel();
    const first = await granted(kernel);
    await revokeAs(kernel, first, 'force');
    await granted(kernel, { holder: 'bob' });
    await spreadOverHours(kernel);
    expect(await hoursAgo(kernel, 9)).toMatchObject({ phase: 'unknown', grant: null });

    await kernel.store.general
      .$executeRaw`delete from lease_event where lease_id = ${first.leaseId}::uuid and kind = 'granted'`;
    const { phase, grant, oldestAt } = await hoursAgo(kernel, 9);

    expect({ phase, grant }).toMatchObject({
      phase: 'held',
      grant: { holder: null, since: null, fencingToken: first.fencingToken },
    });
    expect(Date.parse(oldestAt ?? '')).toBeGreaterThan(Date.now() - 2.1 * HOUR_MS);
  });

  test('is refused for a moment that has not come, and tells a limited caller nothing', async () => {
    const kernel = await openKernel();
    await granted(kernel);

    await expect(hoursAgo(kernel, -1)).rejects.toMatchObject({
      code: 'request.invalid',
      details: { field: 'at' },
    });
    const stranger = { ...VIEWER, namespaces: ['other'] };
    expect(await hoursAgo(kernel, 0, { caller: stranger })).toMatchObject({
      phase: 'unknown',
      grant: null,
    });
  });

  test('reads a few rows by their indexes, however many events there are', async () => {
    const copy = await createTestDatabase();
    const database = await fillDatabase(copy.url, MANY_EVENTS);
    try {
      const planOf = (name: string): Promise<string> =>
        database.planOf((sql) =>
          readFactsAround(sql, { face: 'lease', namespace: 'test', name }, '2026-01-01T00:00:00Z'),
        );
      for (const plan of [await planOf('busy'), await planOf('n7')]) {
        expect(plan).not.toMatch(/Seq Scan on lease_event/u);
        expect(plan).toContain('lease_event_at_idx');
      }
      expect(await planOf('n7')).toContain('lease_event_resource_idx');
    } finally {
      await database.close();
      await copy.drop();
    }
  });
});

const LONG = {
  renewAfterMs: 20_000,
  softAfterMs: 7_200_000,
  hardAfterMs: 7_200_000,
  ttlMs: 8_000_000,
};

const MANY_EVENTS = `
  insert into lease_event (at, face, namespace, name, lease_id, fencing_token, kind, actor, detail)
  select now() - (200000 - i) * interval '1 second', 'lease', 'test',
    case when i % 2 = 0 then 'busy' else 'n' || i % 1000 end,
    ('00000000-0000-4000-8000-' || lpad((i / 2)::text, 12, '0'))::uuid, i,
    case when i % 2 = 0 then 'granted' else 'released' end, 'a', '{"holder":"h"}'
  from generate_series(1, 200000) i`;
