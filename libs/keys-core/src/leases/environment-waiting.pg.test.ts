import { randomUUID } from 'node:crypto';
import { waitUntil } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import { fencedTransaction } from '../grants/fenced-transaction.ts';
import { takeTurnsInLine } from '../grants/sql/environment-line.ts';
import { grant } from '../grants/sql/grant.ts';
import { dropLapsedTickets } from '../grants/sql/line.ts';
import type { Caller } from '../kernel/face-types.ts';
import { leaseTopic } from '../kernel/resource.ts';
import { SILENT_OBSERVER } from '../postgres/kernel-store.ts';
import { aGate, openSession } from '../testing/coordinator-fixture.ts';
import { aGuard, aRequest, BY, eventsOf } from '../testing/kernel-fixture.ts';
import {
  aCaller,
  acquire,
  acquired,
  ALIVE,
  codeOf,
  inLine,
  isSomeoneWaiting,
  type Leases,
  lineOf,
  openLeases,
  released,
} from '../testing/lease-fixture.ts';
import { createSlowDatabase } from '../testing/shifted-clock.ts';
import { createJoinForEnvironment } from './environment-waiting.ts';
import { createFreezeService } from './index.ts';
import type { AcquireInput, GrantedLease } from './lease-types.ts';
import { readContention } from './sql/contention.ts';
import { REVOCATIONS_TOPIC } from './sql/revocations.ts';

const OPERATOR: Caller = {
  principal: 'token-o',
  actor: 'olga',
  role: 'operator',
  namespaces: null,
};
const PROD = { namespace: 'team', name: 'prod' };
const DEPLOY = { ...PROD, action: 'deploy' };

const ALL = { namespace: '', namespaces: null, afterId: null, limit: 10 };

/** A place in line of its own. */
const KEYED = {
  ticketId: randomUUID(),
  waiter: 'late',
  idempotencyKey: randomUUID(),
  fingerprint: undefined,
};

const open = (databaseUrl?: string): Promise<Leases> =>
  openLeases(databaseUrl === undefined ? {} : { databaseUrl }, 'environment');

/** In the line for `prod`, to deploy. */
const queued = (at: Leases, holder: string, change: Partial<AcquireInput> = {}, caller?: Caller) =>
  inLine(at, holder, { ...DEPLOY, ...change }, ALIVE, caller);

const line = (at: Leases): Promise<string[]> => lineOf(at, PROD.name);

/** Who is granted it one after the other, from the release of `held` on. */
async function orderOf(at: Leases, held: GrantedLease, waiters: string[]): Promise<string[]> {
  const order: string[] = [];
  let last = held;
  while (order.length < waiters.length) {
    await released(at, last);
    const rows = await waitUntil(async () => {
      const [row] = await at.store.general.$queryRaw<
        { holder: string; leaseId: string; fencingToken: string }[]
      >`
        select holder, lease_id as "leaseId", fencing_token::text as "fencingToken" from lease
        where name = ${PROD.name} and released_at is null and lease_id <> ${last.leaseId}::uuid`;
      return row;
    });
    order.push(rows.holder);
    // All are tokens of the same service or of the operator.
    last = { ...last, leaseId: rows.leaseId, fencingToken: rows.fencingToken };
    await at.store.general
      .$executeRaw`update lease set principal = 'token-s' where lease_id = ${last.leaseId}::uuid`;
  }
  return order;
}

async function frozen(at: Leases, ms: number, change: object = {}) {
  const until = new Date(Date.now() + ms).toISOString();
  const input = { ...PROD, reason: 'audit', until, ...change };
  return (await createFreezeService(at.store).freeze(input, OPERATOR, BY)).freeze;
}

describe('the line for an environment', () => {
  test('grants it to those who wait, the oldest first, at two controllers', async () => {
    const one = await open();
    const two = await open(one.databaseUrl);
    const held = await acquired(one, DEPLOY);
    const waiters = ['w1', 'w2', 'w3', 'w4'];
    for (const [place, holder] of waiters.entries()) await queued(place % 2 ? two : one, holder);

    expect(await acquire(two, { ...DEPLOY, holder: 'newcomer' })).toMatchObject({
      outcome: 'held',
      waiters: 4,
    });
    expect(await orderOf(one, held, waiters)).toEqual(waiters);
  });

  test('goes by priority, then by who asked to be the newest first, then by age', async () => {
    const at = await open();
    const held = await acquired(at, DEPLOY);
    await queued(at, 'old');
    await queued(at, 'young');
    await queued(at, 'newest-1', { order: 'newest' });
    await queued(at, 'newest-2', { order: 'newest' });
    await queued(at, 'operator', {}, OPERATOR);
    await queued(at, 'operator-newest', { order: 'newest' }, OPERATOR);
    const order = ['operator-newest', 'operator', 'newest-2', 'newest-1', 'old', 'young'];

    const shown = await readContention(at.store.reads, ['environment'], ALL);

    expect(await line(at)).toEqual(order);
    shown.sort((a, b) => a.place - b.place);
    expect(shown.map(({ waiter }) => waiter)).toEqual(order);
    expect(await orderOf(at, held, order)).toEqual(order);
  });

  test('keeps the place of a caller that connects again, at another controller', async () => {
    const one = await open();
    const two = await open(one.databaseUrl);
    const held = await acquired(one, DEPLOY);
    const caller = aCaller();
    const again = { ...DEPLOY, idempotencyKey: randomUUID() };
    const first = await inLine(one, 'first', again, caller);
    await queued(one, 'second');
    caller.vanish();
    expect(await codeOf(first.answer)).toBe('lease.wait_cancelled');
    // Nobody waits for the first any more, and its turn is not over.
    await released(one, held);
    expect(await line(one)).toEqual(['first', 'second']);

    const answer = await acquire(two, { ...again, holder: 'first', waitMs: 60_000 });

    expect(answer).toMatchObject({ outcome: 'granted' });
    expect(await line(one)).toEqual(['second']);
  });

  test('passes over a caller that has not come back for longer than its place lasts', async () => {
    const at = await open();
    const held = await acquired(at, DEPLOY);
    const caller = aCaller();
    const dead = await inLine(at, 'dead', DEPLOY, caller);
    caller.vanish();
    await codeOf(dead.answer);
    const next = await queued(at, 'next');
    await released(at, held);
    const [ticket] = await at.store.general.$queryRaw<{ leftMs: number }[]>`
      select extract(epoch from valid_until - clock_timestamp())::float8 * 1000 as "leftMs"
      from lease_waiter where waiter = 'dead'`;
    expect(ticket?.leftMs).toBeGreaterThan(20_000);
    expect(ticket?.leftMs).toBeLessThanOrEqual(30_000);

    await at.store.general.$executeRaw`
      update lease_waiter set valid_until = valid_until - interval '30 s' where waiter = 'dead'`;

    expect(await next.answer).toMatchObject({ outcome: 'granted' });
  });

  test('answers a call whose time is over with the place; the same request then waits on there', async () => {
    const at = await open();
    const held = await acquired(at, { ...DEPLOY, holder: 'runner', comment: '1.2.2' });
    const wait = { ...DEPLOY, holder: 'w', waitMs: 3_600_000, idempotencyKey: randomUUID() };
    const first = await acquire(at, { ...wait, callMs: 100 });
    await queued(at, 'later');
    const second = await acquire(at, { ...wait, callMs: 100 });
    const third = acquire(at, wait);

    await released(at, held);

    const told = { outcome: 'waiting', by: 'runner', comment: '1.2.2', place: 1, frozen: null };
    expect([first, second]).toMatchObject([told, told]);
    expect(await third).toMatchObject({ outcome: 'granted' });
  });

  test('has a bounded number of places for one caller, also of calls that are over', async () => {
    const at = await open();
    await acquired(at, DEPLOY);
    await at.store.general.$executeRaw`
      insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, valid_until)
      select 'environment', 'team', 'prod', gen_random_uuid(), 'w', 'token-s', clock_timestamp() + interval '1 hour'
      from generate_series(1, 999)`;
    await queued(at, 'last');

    expect(await codeOf(acquire(at, { ...DEPLOY, waitMs: 100 }))).toBe('request.rate_limited');
    await queued(at, 'another', {}, OPERATOR);
    expect(await line(at)).toHaveLength(1_001);
  });

  test('is joined caller by caller: a crowd of one keeps nobody else waiting', async () => {
    const at = await open();
    await acquired(at, DEPLOY);
    const join = createJoinForEnvironment(at.store);
    const joined: string[] = [];
    const standing = { priority: 0, isNewestFirst: false };
    const ask = async (principal: string, nth: number): Promise<void> => {
      const asked = aRequest({ face: 'environment', ...PROD, tag: 'deploy', principal });
      const keys = { ticketId: randomUUID(), idempotencyKey: randomUUID() };
      const giveUpAtMs = at.store.clock.nowMs() + 3_600_000;
      await join({ ...asked, ...KEYED, ...keys, principal }, standing, giveUpAtMs);
      joined.push(`${principal}${String(nth)}`);
    };

    const crowd = Array.from({ length: 30 }, (_, nth) => ask('many', nth));
    await Promise.all([...crowd, ask('one', 0)]);

    expect(joined.indexOf('one0')).toBeLessThan(3);
  });

  test('has a bounded number of places that have lapsed and are kept for their requests', async () => {
    const at = await open();
    await acquired(at, DEPLOY);
    const session = await openSession(at);
    await session.query(`
      insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, valid_until)
      select 'environment', 'team', 'prod', gen_random_uuid(), 'w', 'token-s', clock_timestamp()
      from generate_series(1, 10000)`);

    expect(await codeOf(acquire(at, { ...DEPLOY, waitMs: 100 }))).toBe('request.rate_limited');
    await queued(at, 'another', {}, OPERATOR);
    expect(await line(at)).toEqual(['another']);
  });

  test('never answers that one waits before it is known for whom', async () => {
    const at = await open();
    const held = await acquired(at, { ...DEPLOY, holder: 'runner' });
    await queued(at, 'first');

    const answer = await acquire(at, { ...DEPLOY, holder: 'w', waitMs: 3_600_000, callMs: 1 });

    const since = Date.parse('since' in answer ? answer.since : '');
    expect(answer).toMatchObject({ outcome: 'waiting', by: 'runner', place: 2 });
    expect(since).toBeGreaterThan(Date.now() - 60_000);
    expect(await line(at)).toEqual(['first', 'w']);
    await released(at, held);
  });
});

describe('a frozen environment', () => {
  test('is waited for until its freeze ends; meanwhile the caller is told until when and why', async () => {
    const at = await open();
    const freeze = await frozen(at, 3_600_000);
    const wait = { ...DEPLOY, holder: 'w', waitMs: 7_200_000, idempotencyKey: randomUUID() };
    const told = await acquire(at, { ...wait, callMs: 200 });
    const answer = acquire(at, wait);
    await waitUntil(async () => (await line(at)).length === 1);

    await createFreezeService(at.store).unfreeze(
      { freezeId: freeze.freezeId, reason: 'done' },
      OPERATOR,
      BY,
    );

    expect(told).toMatchObject({ outcome: 'waiting', frozen: { reason: 'audit' } });
    expect(await answer).toMatchObject({ outcome: 'granted' });
  });

  test('refuses a caller that waits for less long than it is frozen, and leaves no place behind', async () => {
    const at = await open();
    await frozen(at, 3_600_000);

    expect(await codeOf(acquire(at, { ...DEPLOY, waitMs: 1_800_000 }))).toBe('environment.frozen');
    expect(await line(at)).toEqual([]);
  });

  test('keeps back nobody behind it in line whose action is not frozen', async () => {
    const at = await open();
    await frozen(at, 3_600_000, { action: 'deploy' });
    await queued(at, 'frozen', { waitMs: 7_200_000 });

    const answer = await acquire(at, { ...PROD, action: 'rollback', waitMs: 10_000 });

    expect(answer).toMatchObject({ outcome: 'granted' });
    expect(await line(at)).toEqual(['frozen']);
  });
});

test('nobody passes a frozen waiter by a statement that waits for its row until the freeze is over', async () => {
  const at = await open();
  await released(at, await acquired(at, DEPLOY));
  await frozen(at, 3_600_000, { action: 'deploy' });
  const environment = { face: 'environment', ...PROD, tag: 'deploy' } as const;
  const standing = { priority: 0, isNewestFirst: false };
  await createJoinForEnvironment(at.store)({ ...aRequest(environment), ...KEYED }, standing, 0);
  const [locked, end] = [aGate(), aGate()];
  const locking = at.store.guests.$transaction(async (tx) => {
    await tx.$queryRaw`select 1 as one from lease where name = 'prod' for update`;
    locked.open();
    await end.opened;
  });
  await locked.opened;
  const guard = await aGuard(at.store);
  const newcomer = aRequest({ ...environment, tag: 'migrate' });
  const granting = at.store.general.$transaction((tx) =>
    grant(tx, [newcomer], { guard, onLocked: 'wait' }),
  );
  await waitUntil(() => isSomeoneWaiting(at));
  await at.store.general.$executeRaw`update environment_freeze set ends_at = clock_timestamp()`;
  end.open();
  await locking;

  expect((await granting).grants.size).toBe(0);
});

describe('a request that supersedes', () => {
  const codes = (waiters: { answer: Promise<unknown> }[]) =>
    Promise.all(waiters.map(({ answer }) => codeOf(answer)));

  test('ends those that wait for the same action: they are told by whom and since when', async () => {
    const at = await open();
    const held = await acquired(at, DEPLOY);
    const old = [await queued(at, 'v1', { comment: '1' }), await queued(at, 'v2')];
    const other = await queued(at, 'migration', { action: 'migrate' });
    const superior = await queued(at, 'olga', {}, OPERATOR);
    const wait = { ...DEPLOY, holder: 'v3', comment: '3', waitMs: 60_000 };
    const newest = acquire(at, { ...wait, supersede: 'waiting' });

    await expect(old[0]?.answer).rejects.toMatchObject({
      code: 'environment.superseded',
      retryable: false,
      details: { by: 'v3', byComment: '3', since: expect.stringMatching(/Z$/u) as string },
    });
    expect(await codes(old)).toEqual(['environment.superseded', 'environment.superseded']);
    expect(await line(at)).toEqual(['olga', 'migration', 'v3']);
    // What runs goes on.
    expect((await eventsOf(at, 'prod')).map((event) => event.split(' ')[0])).toEqual([
      'granted',
      'superseded',
      'superseded',
    ]);
    expect(await orderOf(at, held, ['olga', 'migration', 'v3'])).toEqual([
      'olga',
      'migration',
      'v3',
    ]);
    await Promise.all([newest, other.answer, superior.answer]);
  });

  test('is not undone by a repetition of the request that it has superseded', async () => {
    const at = await open();
    await acquired(at, DEPLOY);
    const old = { ...DEPLOY, holder: 'old', waitMs: 60_000, supersede: 'running' } as const;
    const idempotencyKey = randomUUID();
    const first = await inLine(at, 'old', { ...old, idempotencyKey });
    await queued(at, 'new', { supersede: 'waiting' });

    expect(await codes([first])).toEqual(['environment.superseded']);
    expect(await codeOf(acquire(at, { ...old, idempotencyKey }))).toBe('environment.superseded');
    expect(await line(at)).toEqual(['new']);
  });

  test('supersedes also one whose place has lapsed: it never comes after the newer one', async () => {
    const at = await open();
    await acquired(at, DEPLOY);
    const caller = aCaller();
    const wait = { ...DEPLOY, waitMs: 600_000, idempotencyKey: randomUUID() };
    const away = await inLine(at, 'away', wait, caller);
    caller.vanish();
    await codeOf(away.answer);
    await at.store.general.$executeRaw`
      update lease_waiter set valid_until = valid_until - interval '23 hours' where waiter = 'away'`;
    await dropLapsedTickets(at.store.general, 100);
    await queued(at, 'new', { supersede: 'waiting' });

    const returned = acquire(at, { ...wait, holder: 'away' });

    await expect(returned).rejects.toMatchObject({
      code: 'environment.superseded',
      details: { by: 'new' },
    });
    expect(await line(at)).toEqual(['new']);
  });

  test('supersedes all of very many whose places have lapsed, and joins the line', async () => {
    const at = await open();
    await acquired(at, DEPLOY);
    const session = await openSession(at);
    await session.query(`
      with request as (
        insert into lease_request (id, lease_id, face)
        select gen_random_uuid(), gen_random_uuid(), 'environment' from generate_series(1, 2000)
        returning id, lease_id
      )
      insert into lease_waiter (
        face, namespace, name, ticket_id, waiter, principal, valid_until, action, request_id
      )
      select 'environment', 'team', 'prod', r.lease_id, 'away', 'token-away',
        clock_timestamp() - interval '1 hour', 'deploy', r.id
      from request r`);

    await queued(at, 'new', { supersede: 'waiting' });

    const [left] = await at.store.general.$queryRaw<{ tickets: number; answers: number }[]>`
      select (select count(*)::int from lease_waiter where waiter = 'away') as tickets,
        (select count(*)::int from lease_request where answer is not null) as answers`;
    expect(left).toEqual({ tickets: 0, answers: 2_000 });
    expect(await line(at)).toEqual(['new']);
  });

  test('tells one that was granted, and had not confirmed that yet, who has superseded it', async () => {
    const at = await open(await createSlowDatabase());
    const held = await acquired(at, DEPLOY);
    const wait = { ...DEPLOY, waitMs: 60_000, confirms: true, idempotencyKey: randomUUID() };
    const { answer } = await inLine(at, 'v1', wait);
    await released(at, held);
    expect(await answer).toMatchObject({ outcome: 'granted' });
    await queued(at, 'v2', { supersede: 'running', comment: '2' });

    const again = acquire(at, { ...wait, holder: 'v1' });

    await expect(again).rejects.toMatchObject({
      code: 'environment.superseded',
      details: { by: 'v2', byComment: '2' },
    });
  });

  test('supersedes once: a repetition revokes nothing that began after it', async () => {
    const at = await open();
    await acquired(at, DEPLOY);
    const caller = aCaller();
    const wait = {
      ...DEPLOY,
      waitMs: 60_000,
      supersede: 'running',
      idempotencyKey: randomUUID(),
    } as const;
    const first = await inLine(at, 'first', wait, caller);
    caller.vanish();
    await codeOf(first.answer);
    await at.store.general.$executeRaw`
      update lease set lease_id = gen_random_uuid(), renewable = true, granted_at = clock_timestamp()`;

    await acquire(at, { ...wait, holder: 'first', callMs: 100 });

    const rows = await at.store.general.$queryRaw`select renewable from lease where name = 'prod'`;
    expect(rows).toEqual([{ renewable: true }]);
  });

  test('revokes what runs if it asks for that, and is granted when it has been released', async () => {
    const at = await open();
    const running = await acquired(at, { ...DEPLOY, holder: 'v1' });
    const newest = await queued(at, 'v2', { supersede: 'running' });
    const renewal = await at.service.heartbeat(
      { localTimeMs: 0, renewals: [running] },
      { ...OPERATOR, principal: 'token-s' },
    );

    expect(renewal).toMatchObject([{ outcome: 'refused', reason: 'renewal_blocked' }]);
    expect(await line(at)).toEqual(['v2']);
    await released(at, running);
    const answer = await newest.answer;
    expect(answer).toMatchObject({ outcome: 'granted' });
    const stale = fencedTransaction(at.store, running, () => Promise.resolve('written'));
    await expect(stale).rejects.toMatchObject({ code: 'lease.not_held' });
    const events = await at.store.general.$queryRaw`
      select actor, reason from lease_event where kind = 'revoked'`;
    expect(events).toEqual([{ actor: 'service', reason: 'superseded by v2' }]);
  });

  test('is counted by what gave way: what waited, and what ran', async () => {
    const counted: string[] = [];
    const superseded = (was: string, count: number): void => {
      counted.push(`${was} ${String(count)}`);
    };
    const at = await openLeases({ observer: { ...SILENT_OBSERVER, superseded } }, 'environment');
    await acquired(at, { ...DEPLOY, holder: 'v1' });
    await queued(at, 'v2');
    await queued(at, 'v3', { supersede: 'running' });

    await waitUntil(() => counted.length > 1);
    expect(counted).toEqual(['waiting 1', 'running 1']);
  });

  test('revokes also what an operator runs', async () => {
    const at = await open();
    await acquired(at, DEPLOY, { caller: OPERATOR });
    await queued(at, 'v2', { supersede: 'running' });

    const rows = await at.store.general.$queryRaw`select renewable from lease where name = 'prod'`;
    expect(rows).toEqual([{ renewable: false }]);
  });

  test('lets those that it may have ended look at once if its connection breaks', async () => {
    const at = await open();
    const told: string[] = [];
    for (const topic of [REVOCATIONS_TOPIC, leaseTopic(PROD)]) {
      at.store.hints.on(topic, () => told.push(topic));
    }
    const joined = at.store.general.$transaction(async (tx) => {
      await takeTurnsInLine(tx, PROD);
      const joining = acquire(at, { ...DEPLOY, waitMs: 60_000, supersede: 'running' });
      joining.catch(() => undefined);
      await waitUntil(() => isSomeoneWaiting(at));
      await tx.$queryRaw`
        select pg_terminate_backend(pid) from pg_stat_activity
        where wait_event_type = 'Lock' and datname = current_database()`;
      await expect(joining).rejects.toThrow();
    });
    await joined;

    expect(new Set(told).size).toBe(2);
  });

  test('leaves what runs for another action alone', async () => {
    const at = await open();
    await acquired(at, { ...PROD, action: 'migrate' });
    await queued(at, 'v2', { supersede: 'running' });

    const rows = await at.store.general.$queryRaw`select renewable from lease where name = 'prod'`;
    expect(rows).toEqual([{ renewable: true }]);
  });

  test('ends nobody if it is frozen for longer than it waits', async () => {
    const at = await open();
    await acquired(at, DEPLOY);
    await frozen(at, 7_200_000);
    await queued(at, 'v1', { waitMs: 10_800_000 });
    const wanted = { ...DEPLOY, holder: 'v2', waitMs: 3_600_000, supersede: 'running' } as const;

    expect(await codeOf(acquire(at, wanted))).toBe('environment.frozen');
    // A freeze that began after the request was looked at.
    const late = { ...aRequest({ face: 'environment', ...PROD, tag: 'deploy' }), ...KEYED };
    const giveUpAtMs = at.store.clock.nowMs() + 3_600_000;
    const standing = { priority: 0, isNewestFirst: false, supersede: 'running' } as const;
    await createJoinForEnvironment(at.store)(late, standing, giveUpAtMs);

    expect(await line(at)).toEqual(['v1', 'late']);
    const rows = await at.store.general.$queryRaw`select renewable from lease where name = 'prod'`;
    expect(rows).toEqual([{ renewable: true }]);
  });

  test('leaves the line when it asks again, and is frozen for longer than it still waits', async () => {
    const at = await open();
    await acquired(at, DEPLOY);
    const wait = { ...DEPLOY, holder: 'v2', supersede: 'waiting' } as const;
    const asked = { ...wait, waitMs: 3_600_000, idempotencyKey: randomUUID() };
    const first = await acquire(at, { ...asked, callMs: 100 });
    await frozen(at, 7_200_000);

    const again = await codeOf(acquire(at, asked));

    expect(first).toMatchObject({ outcome: 'waiting', place: 1 });
    expect(again).toBe('environment.frozen');
    expect(await line(at)).toEqual([]);
  });

  test('must be able to wait', async () => {
    const at = await open();

    const asked = async () => acquire(at, { ...DEPLOY, supersede: 'running' });

    await expect(asked()).rejects.toMatchObject({
      code: 'request.invalid',
      details: { field: 'supersede' },
    });
  });

  test('of many at once, exactly the last one in line is left', async () => {
    const one = await open();
    const two = await open(one.databaseUrl);
    const held = await acquired(one, { ...DEPLOY, holder: 'v0' });
    const waits = Array.from({ length: 20 }, (_, count) =>
      acquire(count % 2 === 0 ? one : two, {
        ...DEPLOY,
        holder: `v${String(count + 1)}`,
        waitMs: 60_000,
        supersede: 'running',
      }),
    );
    const outcomes = Promise.all(
      waits.map((wait) => wait.then((answer) => answer.outcome, codeOfError)),
    );
    await waitUntil(async () => {
      const [row] = await one.store.general.$queryRaw<{ count: number }[]>`
        select count(*)::int as count from lease_event where kind = 'superseded'`;
      return row?.count === 19;
    });

    await released(one, held);

    expect((await outcomes).sort()).toEqual([
      ...new Array<string>(19).fill('environment.superseded'),
      'granted',
    ]);
  });
});

function codeOfError(error: unknown): string {
  return (error as { code: string }).code;
}
