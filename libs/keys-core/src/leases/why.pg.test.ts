import { randomUUID } from 'node:crypto';
import { waitUntil } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import { invariant } from '../kernel/errors.ts';
import { dropGrantedTickets, removeOldLeaseRows } from '../grants/index.ts';
import { openSession } from '../testing/coordinator-fixture.ts';
import { OPERATOR } from '../testing/keys-fixture.ts';
import {
  aCaller,
  acquire,
  acquired,
  inLine,
  isSomeoneWaiting,
  lineOf,
  released,
  SERVICE,
} from '../testing/lease-fixture.ts';
import { openOperatedLeases, type OperatedLeases } from '../testing/lease-operations-fixture.ts';
import { declarePermits } from '../testing/pool-fixture.ts';
import { createSlowDatabase } from '../testing/shifted-clock.ts';
import type { AcquireAnswer, GrantedLease, LeaseWhy, MostWaitedPage } from './lease-types.ts';

const LIMITED = { ...OPERATOR, namespaces: ['a'] };

function why(
  on: OperatedLeases,
  name = '42',
  caller = OPERATOR,
  namespace = 'a',
): Promise<LeaseWhy> {
  return on.operations.why({ namespace, name, windowMinutes: 60 }, caller);
}

function waits(on: OperatedLeases, caller = OPERATOR): Promise<MostWaitedPage> {
  return on.operations.mostWaited({ windowMinutes: 60, limit: 5 }, caller);
}

async function leaseOf(answer: Promise<AcquireAnswer>): Promise<GrantedLease> {
  const given = await answer;
  invariant(given.outcome === 'granted', `the test expected a grant: ${JSON.stringify(given)}`);
  return given.lease;
}

/** Moves everything that has happened into the past. Tests do not sleep. */
async function pass({ store }: OperatedLeases, byMs: number): Promise<void> {
  const by = `${String(byMs)} milliseconds`;
  await store.general.$executeRaw`update lease_event set at = at - ${by}::interval`;
  await store.general
    .$executeRaw`update lease_waiter set created_at = created_at - ${by}::interval`;
  await store.general.$executeRaw`
    update lease_wait set began_at = began_at - ${by}::interval, ended_at = ended_at - ${by}::interval`;
  await store.general.$executeRaw`update lease set granted_at = granted_at - ${by}::interval`;
}

/** Takes leases one after the other, and lets all go. */
async function take(on: OperatedLeases, holder: string, names: readonly string[], namespace = 'a') {
  const leases = [];
  for (const name of names) leases.push(await acquired(on, { namespace, name, holder }));
  for (const lease of leases) await released(on, lease);
}

describe('why callers wait for a lease', () => {
  test('tells who holds it and who waits now, and who made whom wait for how long', async () => {
    const on = await openOperatedLeases({ databaseUrl: await createSlowDatabase() });
    const first = await acquired(on, { namespace: 'a', holder: 'ann' });
    const bob = await inLine(on, 'bob', { namespace: 'a' });
    const cem = await inLine(on, 'cem', { namespace: 'a' });
    await pass(on, 20_000);
    await released(on, first);
    const second = await leaseOf(bob.answer);
    await pass(on, 10_000);

    const seen = await why(on);

    expect(seen).toMatchObject({
      holders: [{ leaseId: second.leaseId, holder: 'bob', actor: 'service', mode: null }],
      holderCount: 1,
      waiters: [{ place: 1, waiter: 'cem' }],
      waiterCount: 1,
      isComplete: true,
      waits: { count: 2, gaveUp: 0 },
      blockers: [
        { holder: 'ann', actor: 'service', grants: 1 },
        { holder: 'bob', actor: 'service', grants: 1 },
      ],
      opposite: [],
    });
    const [ann, late] = seen.blockers;
    expect(Math.round((ann?.waitedMs ?? 0) / 10_000)).toBe(4);
    expect(Math.round((late?.waitedMs ?? 0) / 10_000)).toBe(1);
    expect(Math.round(seen.waits.longestMs / 10_000)).toBe(3);
    expect(Math.round((seen.waiters[0]?.waitedMs ?? 0) / 10_000)).toBe(3);
    await released(on, second);
    await released(on, await leaseOf(cem.answer));
  });

  test('those who got nothing have waited too: its time was over, it cancelled, or it was gone', async () => {
    const on = await openOperatedLeases();
    const lease = await acquired(on, { namespace: 'a', holder: 'ann' });
    expect(await acquire(on, { namespace: 'a', holder: 'late', waitMs: 1 })).toMatchObject({
      outcome: 'held',
    });
    const idempotencyKey = randomUUID();
    const given = await inLine(on, 'cancelled', { namespace: 'a', idempotencyKey });
    await on.service.cancel({ idempotencyKey }, SERVICE);
    await given.answer.catch(() => undefined);
    await on.store.general.$executeRaw`
      insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, created_at, valid_until)
      select 'lease', 'a', '42', gen_random_uuid(), 'gone', 'p', t.at - interval '1 second', t.at
      from (select clock_timestamp() - interval '1 minute' as at) t`;
    await removeOldLeaseRows(on.store.general, 30, {
      clock: on.store.clock,
      onFailure: (_kind, error) => expect.unreachable(String(error)),
    });

    expect(await why(on)).toMatchObject({ waits: { count: 3, gaveUp: 3 }, waiters: [] });
    const rows = await on.store.general.$queryRaw<{ outcome: string; waiter: string }[]>`
      select outcome, waiter from lease_wait order by waiter`;
    expect(rows).toEqual([
      { outcome: 'gave_up', waiter: 'cancelled' },
      { outcome: 'lapsed', waiter: 'gone' },
      { outcome: 'gave_up', waiter: 'late' },
    ]);
    await released(on, lease);
  });

  test('an acquire that nobody kept waiting leaves nothing behind', async () => {
    const on = await openOperatedLeases();

    await released(on, await acquired(on, { namespace: 'a', waitMs: 1_000 }));

    expect(await on.store.general.$queryRaw`select outcome from lease_wait`).toEqual([]);
    expect(await why(on)).toMatchObject({
      waits: { count: 0, waitedMs: 0 },
      blockers: [],
      holders: [],
    });
  });

  test('one that began before the window, and one that expired unnoticed, have made others wait', async () => {
    const on = await openOperatedLeases();
    const lease = await acquired(on, { namespace: 'a', holder: 'ann' });
    const bob = await inLine(on, 'bob', { namespace: 'a' });
    await pass(on, 2 * 60 * 60_000);

    const seen = await why(on);

    expect(seen.blockers).toMatchObject([{ holder: 'ann', actor: 'service', grants: 1 }]);
    expect(Math.round((seen.blockers[0]?.waitedMs ?? 0) / 60_000)).toBe(60);
    await released(on, lease);
    await released(on, await leaseOf(bob.answer));
    await acquired(on, { namespace: 'a', holder: 'cem' });
    await on.store.general.$executeRaw`
      update lease set expires_at = clock_timestamp() - interval '1 second' where name = '42'`;
    expect(await why(on)).toMatchObject({ holders: [], holderCount: 0 });
  });

  test('all who share it, or have a permit, are its holders', async () => {
    const on = await openOperatedLeases({ databaseUrl: await createSlowDatabase() });
    for (const total of [null, 5]) {
      const namespace = total === null ? 'a.keys' : 'a.all';
      await declarePermits(on, { perKey: 2, total }, namespace);
      for (const holder of ['ann', 'bob']) {
        await acquired(on, { namespace, holder, mode: 'permit' });
        await pass(on, 1_000);
      }
      const cem = await inLine(on, 'cem', { namespace, mode: 'permit' });
      await pass(on, 1_000);

      const seen = await why(on, '42', OPERATOR, namespace);

      expect(seen.holders.map(({ holder, mode }) => [holder, mode])).toEqual([
        ['ann', 'permit'],
        ['bob', 'permit'],
      ]);
      expect(seen.blockers.map(({ holder }) => holder).sort()).toEqual(['ann', 'bob']);
      cem.answer.catch(() => undefined);
      await on.store.general.$executeRaw`delete from lease_waiter where waiter = 'cem'`;
      await cem.answer.catch(() => undefined);
    }
  });

  test('an environment has its own: who waited for it, in its order, and who was superseded', async () => {
    const on = await openOperatedLeases({}, 'environment');
    const of = { namespace: 'a', name: 'prod', action: 'deploy' };
    await acquired(on, { ...of, holder: 'ann' });
    const old = await inLine(on, 'old', of);
    const next = await inLine(on, 'next', { ...of, supersede: 'waiting' });

    expect(await why(on, 'prod')).toMatchObject({
      holders: [{ holder: 'ann' }],
      waiters: [{ place: 1, waiter: 'next' }],
      waits: { count: 2, gaveUp: 1 },
      blockers: [{ holder: 'ann' }],
    });
    expect(await on.store.general.$queryRaw`select outcome from lease_wait`).toEqual([
      { outcome: 'superseded' },
    ]);
    await expect(old.answer).rejects.toMatchObject({ code: 'environment.superseded' });
    next.answer.catch(() => undefined);
  });

  test('one that waited for an environment and is gone has waited until its place lapsed, kept or not', async () => {
    const on = await openOperatedLeases({}, 'environment');
    const of = { namespace: 'a', name: 'prod', action: 'deploy' };
    await acquired(on, { ...of, holder: 'ann' });
    const caller = aCaller();
    const gone = await inLine(on, 'gone', of, caller);
    caller.vanish();
    await gone.answer.catch(() => undefined);
    await pass(on, 60_000);
    await on.store.general.$executeRaw`
      update lease_waiter set valid_until = clock_timestamp() - interval '40 seconds'`;

    const seen = await why(on, 'prod');
    const most = await waits(on);
    await on.store.general.$executeRaw`delete from lease_waiter`;
    const later = await why(on, 'prod');

    expect(seen).toMatchObject({
      waiters: [],
      waits: { count: 1, gaveUp: 1 },
      blockers: [{ holder: 'ann', grants: 1 }],
    });
    expect(Math.round(seen.waits.waitedMs / 10_000)).toBe(2);
    expect(most.items).toMatchObject([{ name: 'prod', waits: 1, waiting: 0, gaveUp: 1 }]);
    expect(later.waits).toEqual(seen.waits);
  });

  test('one that was granted is told so, although another has the lease when its ticket goes', async () => {
    const on = await openOperatedLeases();
    const first = await acquired(on, { namespace: 'a' });
    await released(on, first);
    const next = await acquired(on, { namespace: 'a', holder: 'bob' });
    // As a replay of the first request makes it that joins the line while it is granted.
    await on.store.general.$executeRaw`
      insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, valid_until)
      values ('lease', 'a', '42', ${first.leaseId}::uuid, 'alice', 'p', clock_timestamp() + interval '1 s')`;

    await dropGrantedTickets(on.store.transitions, [first.leaseId]);

    expect(await on.store.general.$queryRaw`select waiter, outcome from lease_wait`).toEqual([
      { waiter: 'alice', outcome: 'granted' },
    ]);
    await released(on, next);
  });
});

describe('leases that are taken in opposite orders', () => {
  test('are told before anybody has waited; those in the same order are not', async () => {
    const on = await openOperatedLeases();
    await take(on, 'ann', ['x', 'y', 'z']);
    await take(on, 'bob', ['y', 'x']);
    await take(on, 'cem', ['x', 'z']);

    const seen = await why(on, 'x');

    const lease = (name: string) => ({ face: 'lease', namespace: 'a', name });
    expect(seen.opposite).toMatchObject([
      {
        one: lease('x'),
        other: lease('y'),
        oneFirst: { times: 1, by: [{ holder: 'ann', actor: 'service' }] },
        otherFirst: { times: 1, by: [{ holder: 'bob', actor: 'service' }] },
      },
    ]);
    expect((await why(on, 'z')).opposite).toEqual([]);
    expect((await waits(on)).opposite).toEqual(seen.opposite);
  });

  test('the same name of holder with another token is another holder', async () => {
    const on = await openOperatedLeases();
    const other = { ...SERVICE, principal: 'token-t', actor: 'other' };
    await take(on, 'ann', ['x', 'y']);
    const y = await acquired(on, { namespace: 'a', name: 'y', holder: 'ann' });
    await acquired(on, { namespace: 'a', name: 'x', holder: 'ann' }, { caller: other });
    await released(on, y);

    expect((await waits(on)).opposite).toEqual([]);
  });

  test('taken together they are in no order', async () => {
    const on = await openOperatedLeases();
    const inOne = (holder: string, names: readonly string[]) =>
      on.store.general.$transaction(async (tx) => {
        for (const name of names) {
          await tx.$executeRaw`
            insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, detail)
            values ('lease', 'a', ${name}, gen_random_uuid(), 1, 'granted', 'ci',
              jsonb_build_object('holder', ${holder}::text, 'principal', 'p'))`;
        }
      });
    await inOne('ann', ['x', 'y']);
    await inOne('bob', ['y', 'x']);

    expect((await waits(on)).opposite).toEqual([]);
  });
});

describe('what callers waited for most', () => {
  test('is by the time of all waits together, with who made them wait', async () => {
    const on = await openOperatedLeases();
    const much = await acquired(on, { namespace: 'a', name: 'much', holder: 'ann' });
    const first = await inLine(on, 'first', { namespace: 'a', name: 'much' });
    await pass(on, 60_000);
    const little = await acquired(on, { namespace: 'a', name: 'little', holder: 'bob' });
    const second = await inLine(on, 'second', { namespace: 'a', name: 'little' });
    await released(on, little);
    await released(on, await leaseOf(second.answer));

    expect(await waits(on)).toMatchObject({
      isComplete: true,
      items: [
        {
          face: 'lease',
          namespace: 'a',
          name: 'much',
          waits: 1,
          waiting: 1,
          gaveUp: 0,
          blockers: [{ holder: 'ann' }],
        },
        {
          face: 'lease',
          namespace: 'a',
          name: 'little',
          waits: 1,
          waiting: 0,
          blockers: [{ holder: 'bob' }],
        },
      ],
    });
    await released(on, much);
    await released(on, await leaseOf(first.answer));
  });
});

test('what callers waited for most leaves connections for others, however many leases it explains', async () => {
  const on = await openOperatedLeases();
  await on.store.general.$executeRaw`
    insert into lease_wait (face, namespace, name, ended_at, ticket_id, began_at, waiter, outcome)
    select 'lease', 'a', i::text, clock_timestamp(), gen_random_uuid(),
      clock_timestamp() - interval '1 second', 'w', 'granted'
    from generate_series(1, 8) i`;

  const { asked, other } = await on.store.general.$transaction(async (tx) => {
    await tx.$executeRaw`lock table lease in access exclusive mode`;
    const asked = on.operations.mostWaited({ windowMinutes: 60, limit: 8 }, OPERATOR);
    await waitUntil(() => isSomeoneWaiting(on));
    return { asked, other: await on.store.reads.$queryRaw`select 1 as answered` };
  });

  expect(other).toEqual([{ answered: 1 }]);
  expect((await asked).items).toHaveLength(8);
});

describe('a caller that is limited to namespaces', () => {
  test('is told nothing of others: no holder, no waiter, no wait, and no order with a lease of theirs', async () => {
    const on = await openOperatedLeases();
    const namespace = 'hidden';
    const lease = await acquired(on, { namespace, holder: 'hidden-holder' });
    const { answer } = await inLine(on, 'hidden-waiter', { namespace }, aCaller());
    const mixed = async (holder: string, order: readonly string[]): Promise<void> => {
      const leases = [];
      for (const of of order) leases.push(await acquired(on, { namespace: of, name: 'm', holder }));
      for (const one of leases) await released(on, one);
    };
    await mixed('hidden-one', ['a', 'hidden']);
    await mixed('hidden-two', ['hidden', 'a']);
    expect((await why(on, 'm')).opposite).toHaveLength(1);

    const seen = [
      await why(on, '42', LIMITED, namespace),
      await why(on, 'm', LIMITED),
      await waits(on, LIMITED),
    ];

    expect(seen[0]).toMatchObject({
      holders: [],
      waiters: [],
      waits: { count: 0 },
      blockers: [],
      opposite: [],
    });
    expect(seen[1]).toMatchObject({ opposite: [] });
    expect(seen[2]).toMatchObject({ items: [], opposite: [] });
    expect(JSON.stringify(seen)).not.toContain('hidden-');
    expect((await waits(on)).items).toHaveLength(1);
    await released(on, lease);
    await released(on, await leaseOf(answer));
    expect(await lineOf(on)).toEqual([]);
  });
});

describe('where too much has happened', () => {
  test('only the newest is read, and the answer says from when on', async () => {
    const on = await openOperatedLeases();
    const session = await openSession(on);
    await session.query(`
      insert into lease_event (at, face, namespace, name, lease_id, fencing_token, kind, actor, detail)
      select clock_timestamp() - interval '50 minutes' + i * interval '100 milliseconds',
        'lease', 'a', '42', gen_random_uuid(), i, 'granted', 'a', '{"holder":"h","principal":"p"}'
      from generate_series(1, 25000) i`);

    const seen = await why(on);

    // Of 25,000 events, ten a second up to 500 s ago, the newest 4,000 and the newest 20,000.
    const secondsSince = (at: string): number => (Date.parse(seen.asOf) - Date.parse(at)) / 1_000;
    expect(seen.isComplete).toBe(false);
    expect(secondsSince(seen.fromAt)).toBeCloseTo(900, -2);
    expect(secondsSince(seen.oppositeFromAt)).toBeCloseTo(2_500, -2);
  });
});

test('a wait is kept for a day', async () => {
  const on = await openOperatedLeases();
  await on.store.general.$executeRaw`
    insert into lease_wait (face, namespace, name, ended_at, ticket_id, began_at, waiter, outcome)
    select 'lease', 'a', '42', clock_timestamp() - h * interval '1 hour', gen_random_uuid(),
      clock_timestamp() - h * interval '1 hour', h::text, 'granted'
    from generate_series(23, 27, 2) h`;

  await removeOldLeaseRows(on.store.general, 30, {
    clock: on.store.clock,
    onFailure: (_kind, error) => expect.unreachable(String(error)),
  });

  expect(await on.store.general.$queryRaw`select waiter from lease_wait`).toEqual([
    { waiter: '23' },
  ]);
});
