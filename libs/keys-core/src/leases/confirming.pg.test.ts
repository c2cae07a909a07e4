/** Grants that their callers confirm, by renewing them before they use them (ADR 10). */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createTestDatabase, expectPrompt, replaceClock } from '@leasehold/testing';
import { UNCONFIRMED_LADDER } from '../kernel/ladder.ts';
import { createReaper } from '../keys/index.ts';
import { aCoordinator, aUseCase, acquired as taken } from '../testing/coordinator-fixture.ts';
import { age } from '../testing/kernel-fixture.ts';
import {
  acquire,
  acquired,
  inLine,
  type Leases,
  openLeases,
  released,
  SERVICE,
} from '../testing/lease-fixture.ts';
import { remove } from '../testing/model/remove.ts';
import { createSlowDatabase } from '../testing/shifted-clock.ts';
import type { GrantedLease } from './lease-types.ts';

const TTL_MS = 60_000;
const NOT_CONFIRMED = 'not confirmed: its caller never began to use it';

function heartbeat({ service }: Leases, { leaseId, fencingToken }: GrantedLease) {
  const renewals = [{ leaseId, fencingToken }];
  return service.heartbeat({ localTimeMs: 2_000_000, renewals }, SERVICE);
}

/** The events of the lease, oldest first, and how many callbacks are owed. */
async function writtenOf({ store }: Leases): Promise<{ events: string[]; owedCount: number }> {
  const events = await store.general.$queryRaw<{ line: string }[]>`
    select concat_ws(' ', kind, reason) as line from lease_event where name = '42' order by id`;
  const owed = await store.general.$queryRaw<unknown[]>`select lease_id::text from lease_reap`;
  return { events: events.map(({ line }) => line), owedCount: owed.length };
}

describe('H-orphan-grant a grant that is to be confirmed', () => {
  test('is short, and has its whole TTL from its first renewal on', async () => {
    const one = await openLeases({ databaseUrl: await createSlowDatabase() });
    const lease = await acquired(one, { confirms: true, ttlMs: TTL_MS, localTimeMs: 1_000_000 });
    const [first] = await one.store.general.$queryRaw<{ leftMs: number; ttlMs: number }[]>`
      select date_part('epoch', expires_at - granted_at) * 1000 as "leftMs", ttl_ms as "ttlMs"
      from lease where lease_id = ${lease.leaseId}::uuid`;

    const [renewed] = await heartbeat(one, lease);

    expect(first?.ttlMs).toBe(TTL_MS);
    expect(first?.leftMs).toBeCloseTo(UNCONFIRMED_LADDER.ttlMs, -3);
    // Its renewal is due at once, and it has a grace of its own.
    expect(lease.deadlines.renewAtMs).toBeLessThanOrEqual(1_000_000);
    expect(lease.deadlines.loseAtMs - lease.deadlines.renewAtMs).toBe(650);
    expect(renewed).toMatchObject({ outcome: 'renewed' });
    expect(renewed).toHaveProperty('deadlines.loseAtMs', expect.closeTo(2_050_000, -3));
    expect(await acquire(one, { holder: 'bob' })).toMatchObject({ outcome: 'held', by: 'alice' });
  });

  test('is known by its length, also where the database takes a while between two readings of its clock', async () => {
    const { url } = await createTestDatabase();
    const client = new pg.Client(url);
    await client.connect();
    onTestFinished(() => client.end());
    await client.query('create sequence public.readings');
    // Each reading is 5 ms after the last one.
    const clock = await replaceClock(
      url,
      `select to_timestamp(1.9e9 + nextval('public.readings') * 0.005)`,
    );
    onTestFinished(() => clock.close());
    const one = await openLeases({ databaseUrl: url });
    const lastsMs: (number | undefined)[] = [];

    for (const holder of ['alice', 'bob', 'carol']) {
      const { leaseId } = await acquired(one, { holder, confirms: true, ttlMs: TTL_MS });
      const [row] = await one.store.general.$queryRaw<{ lastsMs: number }[]>`
        select date_part('epoch', expires_at - renewed_at) * 1000 as "lastsMs" from lease`;
      lastsMs.push(row?.lastsMs);
      // The first is taken over, the second released: each is another statement's.
      if (holder === 'alice') {
        await age(one, leaseId, 10_000);
        continue;
      }

      await one.store.general.$executeRaw`
        update lease set end_reason = 'released', released_at = clock_timestamp()`;
    }

    expect(lastsMs).toEqual([900, 900, 900]);
  });

  test('that its caller never received goes to the next in line within a second', async () => {
    const one = await openLeases();
    const two = await openLeases({ databaseUrl: one.databaseUrl });
    const held = await acquired(one);
    const lost = await inLine(one, 'lost', { confirms: true, ttlMs: TTL_MS });
    const next = await inLine(two, 'next', { confirms: true, ttlMs: TTL_MS });
    await released(one, held);
    await lost.answer;

    const answer = await next.answer;

    expect(answer.outcome).toBe('granted');
    const [gap] = await one.store.general.$queryRaw<{ ms: number }[]>`
      select date_part('epoch', max(at) - min(at)) * 1000 as ms from (
        select at from lease_event where kind in ('granted', 'taken_over') order by id desc limit 2
      ) grants`;
    expect(gap?.ms).toBeGreaterThanOrEqual(UNCONFIRMED_LADDER.ttlMs);
    expect(gap?.ms).toBeLessThan(TTL_MS);
    expectPrompt(gap?.ms ?? Infinity, 10_000);
  });

  test('is returned again with the rest of its short term, even to a retry that does not ask to confirm', async () => {
    const one = await openLeases({ databaseUrl: await createSlowDatabase() });
    const idempotencyKey = randomUUID();
    const first = await acquired(one, { idempotencyKey, confirms: true, waitMs: 1_000 });
    await age(one, first.leaseId, 300);

    const again = await acquired(one, { idempotencyKey });
    await heartbeat(one, first);
    const confirmed = await acquired(one, { idempotencyKey });

    expect(again.leaseId).toBe(first.leaseId);
    expect(again.deadlines.loseAtMs).toBeLessThanOrEqual(first.deadlines.loseAtMs - 300);
    expect(confirmed.deadlines.loseAtMs).toBeGreaterThan(1_000_000 + 40_000);
  });

  const ENDS: readonly [string, (on: Leases, lease: GrantedLease) => Promise<unknown>][] = [
    ['the next grant', (on) => acquired(on, { holder: 'bob' })],
    ['a confirmation that comes too late', (on, lease) => heartbeat(on, lease)],
    ['a release that comes too late', (on, lease) => released(on, lease)],
    ['the reaper', (on) => createReaper(on.store).runOnce()],
    [
      'the reaper of its use case',
      (on) => aCoordinator(on).reapStaleLeases([['user']], true, () => undefined),
    ],
    [
      'a removal',
      ({ store }, { leaseId }) =>
        remove(store.general, 'lease', [leaseId], {
          actor: 'op',
          belief: store.clockWatch.belief(0),
        }),
    ],
    [
      'a coordinator that takes it',
      (on) =>
        taken(
          aCoordinator(on),
          aUseCase('42', { scope: () => ({ namespace: ['user', 'update'], key: '42' }) }),
        ),
    ],
    [
      'a coordinator that leads',
      (on) =>
        aCoordinator(on).acquireOrRenew(
          aUseCase('42', { scope: () => ({ namespace: ['user', 'update'], key: '42' }) }),
        ),
    ],
  ];

  test.each(ENDS)(
    'and was not, and is ended by %s, counts as expired for that reason and owes no callback',
    async (_by, end) => {
      const one = await openLeases();
      const lease = await acquired(one, { confirms: true });
      await age(one, lease.leaseId, 1_000);

      await end(one, lease);

      const { events, owedCount } = await writtenOf(one);
      expect(events.slice(0, 2)).toEqual(['granted', `expired ${NOT_CONFIRMED}`]);
      expect(events.filter((event) => event.startsWith('expired'))).toHaveLength(1);
      expect(owedCount).toBe(0);
    },
  );

  test.each(ENDS.filter(([by]) => by !== 'the reaper of its use case'))(
    'and was, then expired and is ended by %s, owes its callback like any other',
    async (_by, end) => {
      const one = await openLeases({ databaseUrl: await createSlowDatabase() });
      const lease = await acquired(one, { confirms: true });
      await heartbeat(one, lease);
      await age(one, lease.leaseId, 61_000);

      await end(one, lease);

      const { events, owedCount } = await writtenOf(one);
      expect(events.slice(0, 2)).toEqual(['granted', 'expired']);
      expect(owedCount).toBe(1);
    },
  );
});
