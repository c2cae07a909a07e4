import { randomUUID } from 'node:crypto';
import { getEventListeners } from 'node:events';
import type pg from 'pg';
import { describe, expect, test, vi } from 'vitest';
import { createTestDatabase, waitUntil } from '@leasehold/testing';
import { joinLine } from '../grants/sql/line.ts';
import { invariant } from '../kernel/errors.ts';
import { SILENT_OBSERVER, type StoreObserver } from '../postgres/kernel-store.ts';
import { openSession, someoneWaits } from '../testing/coordinator-fixture.ts';
import { age, eventsOf, MACHINE_CLOCK } from '../testing/kernel-fixture.ts';
import {
  aCaller,
  acquire,
  acquired,
  codeOf,
  inLine,
  type Leases,
  lineOf,
  openLeases,
  released,
  SERVICE,
} from '../testing/lease-fixture.ts';
import { makeClockShiftable } from '../testing/shifted-clock.ts';
import { allOf, inLines, NAMESPACE, releasedAll } from '../testing/together-fixture.ts';
import type { AcquireAnswer, GrantedLease } from './lease-types.ts';

/** Resolves when a request keeps this ticket alive: one that has ended prolongs it once more at most. */
async function keptInLine({ store }: Leases, waiter: string): Promise<void> {
  const seen = new Set<number>();
  await waitUntil(async () => {
    const [row] = await store.general.$queryRaw<{ until: number }[]>`
      select date_part('epoch', valid_until) as until from lease_waiter where waiter = ${waiter}`;
    if (row !== undefined) seen.add(row.until);
    return seen.size > 2;
  });
}

describe('waiting in line', () => {
  test('I9 waiters at two controllers are granted in the order of their tickets', async () => {
    const one = await openLeases();
    const two = await openLeases({ databaseUrl: one.databaseUrl });
    let held = await acquired(one);
    const waiters = [];
    for (let place = 0; place < 8; place += 1) {
      waiters.push(await inLine(place % 2 === 0 ? one : two, `waiter-${String(place)}`));
    }

    const order: string[] = [];
    for (const { answer } of waiters) {
      await released(one, held);
      const next = await answer;
      order.push(next.outcome);
      if (next.outcome === 'granted') held = next.lease;
    }

    expect(order).toEqual(new Array(8).fill('granted'));
    expect(await lineOf(one)).toEqual([]);
  });

  test('all who wait with one signal are one listener of it', async () => {
    const one = await openLeases();
    await acquired(one);
    const life = aCaller();
    const waiters = ['a', 'b', 'c'].map((holder) =>
      acquire(one, { holder, waitMs: 60_000 }, { life }),
    );
    await waitUntil(async () => (await lineOf(one)).length === waiters.length);

    expect(getEventListeners(life.signal, 'abort')).toHaveLength(1);

    life.vanish();
    const codes = await Promise.all(waiters.map(codeOf));
    expect(codes).toEqual(waiters.map(() => 'lease.wait_cancelled'));
  });

  test('nobody overtakes a live waiter: a newcomer is told the head of the line', async () => {
    const one = await openLeases();
    const held = await acquired(one);
    // Joined without a waiting room, nobody looks for it, so that the lease stays free.
    await joinLine(one.store.general, [
      {
        face: 'lease',
        namespace: 'user.update',
        name: '42',
        waiter: 'first',
        ticketId: randomUUID(),
        idempotencyKey: randomUUID(),
        principal: SERVICE.principal,
      },
    ]);
    await one.store.general
      .$executeRaw`update lease_waiter set valid_until = clock_timestamp() + interval '1 minute'`;
    await released(one, held);

    const newcomer = await acquire(one, { holder: 'newcomer' });

    expect(newcomer).toMatchObject({ outcome: 'held', by: 'first', remainingMs: 0, waiters: 1 });
  });

  test('a waiter whose caller fell silent is skipped, and delays nobody for long', async () => {
    const one = await openLeases();
    const held = await acquired(one);
    const dead = aCaller();
    const first = await inLine(one, 'dead', {}, dead);
    const wasAnswered = vi.fn();
    first.answer.then(wasAnswered, () => undefined);
    const second = await inLine(one, 'living');
    dead.fallSilent();
    await released(one, held);

    const answer = await second.answer;

    expect(answer.outcome).toBe('granted');
    // It still waits, or learned that its wait is over, if its turn came at that very moment.
    expect(wasAnswered).not.toHaveBeenCalled();
  });

  test('a grant whose caller falls silent at its turn is given back at once', async () => {
    const { observer, grantedCount } = countingGrants();
    const one = await openLeases({ observer });
    const held = await acquired(one);
    // The second grant is the one that it waits for.
    const life = { signal: new AbortController().signal, isAlive: () => grantedCount() < 2 };
    const first = await inLine(one, 'silent', {}, life);
    const second = await inLine(one, 'next');

    await released(one, held);

    await expect(codeOf(first.answer)).resolves.toBe('lease.wait_cancelled');
    await expect(second.answer).resolves.toMatchObject({ outcome: 'granted' });
  });

  test('F18 a waiter whose grant is being given back is not answered when the tickets are prolonged', async () => {
    const { observer, grantedCount } = countingGrants();
    const one = await openLeases({ observer });
    const session = await openSession(one);
    await stall(session, `update on lease for each row when (old.holder = 'silent')`);
    const held = await acquired(one);
    let silentCount = 0;
    // Silent for the one check after its grant: the next checks find it alive, and prolong its place.
    const life = {
      signal: new AbortController().signal,
      isAlive: () => grantedCount() < 2 || (silentCount += 1) > 1,
    };
    const first = await inLine(one, 'silent', {}, life);
    const second = await inLine(one, 'next');
    const wasAnswered = vi.fn();
    first.answer.then(wasAnswered, wasAnswered);
    await released(one, held);
    await someoneWaits(one);

    // Rounds of prolonging do not overlap: once the second one shows, the first one is complete.
    for (let times = 0; times < 2; times += 1) {
      const before = await validUntil(session, 'next');
      await waitUntil(async () => (await validUntil(session, 'next')) > before);
    }
    expect(wasAnswered).not.toHaveBeenCalled();
    await unstall(session);

    await expect(codeOf(first.answer)).resolves.toBe('lease.wait_cancelled');
    await expect(second.answer).resolves.toMatchObject({ outcome: 'granted' });
  });

  test('F18 a grant is not given back if its caller has sent the request again and received the grant', async () => {
    const { observer, grantedCount } = countingGrants();
    const one = await openLeases({ observer });
    const two = await openLeases({ databaseUrl: one.databaseUrl });
    const session = await openSession(one);
    const isCancel = `when (new.answer ->> 'outcome' = 'cancelled')`;
    await stall(session, `insert on lease_request for each row ${isCancel}`);
    const held = await acquired(one);
    const life = { signal: new AbortController().signal, isAlive: () => grantedCount() < 2 };
    const idempotencyKey = randomUUID();
    const first = await inLine(one, 'silent', { idempotencyKey }, life);
    await released(one, held);
    await someoneWaits(one);

    const again = await acquired(two, { holder: 'silent', idempotencyKey });
    await unstall(session);

    await expect(codeOf(first.answer)).resolves.toBe('lease.wait_cancelled');
    await expect(
      two.service.heartbeat({ localTimeMs: 0, renewals: [again] }, SERVICE),
    ).resolves.toMatchObject([{ outcome: 'renewed' }]);
  });

  test('F18 a grant whose caller is gone when its turn has come is given back at once', async () => {
    const gone = aCaller();
    let isItsTurn = false;
    const one = await openLeases({
      observer: {
        ...SILENT_OBSERVER,
        grant: (_face, outcome) => {
          if (isItsTurn && outcome === 'granted') gone.vanish();
        },
      },
    });
    const held = await acquired(one);
    const idempotencyKey = randomUUID();
    const first = await inLine(one, 'gone', { idempotencyKey }, gone);
    const second = await inLine(one, 'next');
    isItsTurn = true;

    await released(one, held);

    await expect(codeOf(first.answer)).resolves.toBe('lease.wait_cancelled');
    await expect(second.answer).resolves.toMatchObject({ outcome: 'granted' });
    await expect(codeOf(acquire(one, { holder: 'gone', idempotencyKey }))).resolves.toBe(
      'lease.wait_cancelled',
    );
    const kinds = (await eventsOf(one, '42')).map((line) => line.split(' ')[0]);
    expect(kinds).toEqual(['granted', 'released', 'granted', 'failed', 'granted']);
  });

  test('a controller that dies does not hold up waiters at another one', async () => {
    const one = await openLeases();
    const two = await openLeases({ databaseUrl: one.databaseUrl });
    const held = await acquired(one);
    const gone = aCaller();
    const first = await inLine(two, 'at-the-dead', {}, gone);
    const second = await inLine(one, 'at-the-living');
    gone.vanish();
    await expect(codeOf(first.answer)).resolves.toBe('lease.wait_cancelled');
    await released(one, held);

    await expect(second.answer).resolves.toMatchObject({ outcome: 'granted' });
  });

  test('a caller whose wait is over is told the holder, and its request is never granted', async () => {
    const one = await openLeases();
    const held = await acquired(one, { comment: 'importing' });
    const idempotencyKey = randomUUID();

    const answer = await acquire(one, { waitMs: 200, holder: 'bob', idempotencyKey });
    await released(one, held);
    const again = await acquire(one, { waitMs: 200, holder: 'bob', idempotencyKey });

    expect(answer).toMatchObject({ outcome: 'held', by: 'alice', comment: 'importing' });
    expect(answer.waitedMs).toBeGreaterThanOrEqual(200);
    expect(again).toEqual(answer);
    expect(await lineOf(one)).toEqual([]);
  });
});

describe('the same request again', () => {
  test('I7 gets the same grant again, with the time that is left of it', async () => {
    const one = await openLeases();
    const idempotencyKey = randomUUID();
    const lease = await acquired(one, { idempotencyKey });
    await age(one, lease.leaseId, 20_000);

    const again = await acquired(one, { idempotencyKey, localTimeMs: 1_000_000 });

    expect(again.leaseId).toBe(lease.leaseId);
    expect(again.fencingToken).toBe(lease.fencingToken);
    const shorterMs = lease.deadlines.loseAtMs - again.deadlines.loseAtMs;
    expect(shorterMs).toBeGreaterThanOrEqual(20_000);
    expect(shorterMs).toBeLessThan(40_000);
  });

  test('I7 gets no new grant when it comes after its lease was released', async () => {
    const one = await openLeases();
    const idempotencyKey = randomUUID();
    const lease = await acquired(one, { idempotencyKey });
    await released(one, lease);

    const late = await acquired(one, { idempotencyKey, localTimeMs: 5_000 });

    expect(late.leaseId).toBe(lease.leaseId);
    expect(late.deadlines.loseAtMs).toBeLessThanOrEqual(5_000);
    expect(await eventsOf(one, '42')).toHaveLength(2);
  });

  test('I7 is refused again after a refusal, though the lease is free by then', async () => {
    const one = await openLeases();
    const idempotencyKey = randomUUID();
    const held = await acquired(one);
    const refused = await acquire(one, { holder: 'bob', idempotencyKey });
    await released(one, held);

    const late = await acquire(one, { holder: 'bob', idempotencyKey });

    expect(late).toEqual(refused);
    expect(late.outcome).toBe('held');
  });

  test('joins its ticket while the first request waits, at another controller too', async () => {
    const one = await openLeases();
    const two = await openLeases({ databaseUrl: one.databaseUrl });
    const held = await acquired(one);
    const idempotencyKey = randomUUID();
    const caller = aCaller();
    const first = await inLine(one, 'bob', { idempotencyKey }, caller);
    await inLine(one, 'carol');
    caller.vanish();
    await first.answer.catch(() => undefined);

    const replay = acquire(two, { holder: 'bob', idempotencyKey, waitMs: 60_000 });
    await keptInLine(two, 'bob');
    expect(await lineOf(two)).toEqual(['bob', 'carol']);
    await released(one, held);

    await expect(replay).resolves.toMatchObject({ outcome: 'granted' });
    expect(await lineOf(two)).toEqual(['carol']);
  });

  test('with its idempotency key for another resource is an error', async () => {
    const one = await openLeases();
    const idempotencyKey = randomUUID();
    await acquired(one, { idempotencyKey });

    await expect(codeOf(acquire(one, { idempotencyKey, name: 'other' }))).resolves.toBe(
      'request.idempotency_reused',
    );
  });

  test('I7 many times at once with one idempotency key is one attempt', async () => {
    const one = await openLeases();
    const two = await openLeases({ databaseUrl: one.databaseUrl });
    const idempotencyKey = randomUUID();

    const answers = await Promise.all(
      Array.from({ length: 16 }, (_, place) =>
        acquired(place % 2 === 0 ? one : two, { idempotencyKey }),
      ),
    );

    expect(new Set(answers.map((lease) => lease.leaseId)).size).toBe(1);
    expect(await eventsOf(one, '42')).toHaveLength(1);
  });
});

describe('deadlines', () => {
  test('C48 of a lease that was waited for are counted from its grant, and never pass its expiry', async () => {
    const one = await openLeases();
    const held = await acquired(one);
    const localTimeMs = 1_000_000;
    const sentAtMs = one.store.clock.nowMs();
    const { answer } = await inLine(one, 'bob', { ttlMs: 10_000, localTimeMs });
    await waitUntil(() => one.store.clock.nowMs() - sentAtMs > 600);
    await released(one, held);

    const granted = await answer;

    const answeredAfterMs = one.store.clock.nowMs() - sentAtMs;
    if (granted.outcome !== 'granted') throw new Error(granted.outcome);
    const { loseAtMs } = granted.lease.deadlines;
    // From the request's sending it would be too early; from the answer's arrival it would be too late.
    expect(loseAtMs).toBeGreaterThan(localTimeMs + 10_000 - 1_667);
    expect(loseAtMs).toBeLessThanOrEqual(localTimeMs + answeredAfterMs + 10_000 - 1_667);
  });

  test('C48 F7b are no later for an answer that takes long, if the clock of the database has stepped forward', async () => {
    const { url } = await createTestDatabase();
    const shift = await makeClockShiftable(url);
    const first = await openStopped(url);
    const second = await openStopped(url);
    const held = [
      await acquired(first),
      await acquired(first, { namespace: NAMESPACE, name: 'a' }),
    ];
    const sentAtMs = MACHINE_CLOCK.nowMs();
    const { answer: one } = await inLine(first, 'bob', { ttlMs: 10_000 });
    const several = await inLines(second, ['a', 'b'], { holder: 'carol', ttlMs: 10_000 });
    await shift(STOPPED_MS);
    await releasedAll(first, held);

    const granted = [await leaseOf(one), ...(await allOf(several.answer))];

    const answeredAfterMs = MACHINE_CLOCK.nowMs() - sentAtMs;
    for (const { deadlines } of granted) {
      expect(deadlines.loseAtMs).toBeLessThanOrEqual(1_000_000 + answeredAfterMs + 10_000 - 1_667);
    }
  });
});

const STOPPED_MS = 60_000;

/** A controller that is stopped for a minute as soon as it has granted to one that waited. */
function openStopped(databaseUrl: string): Promise<Leases> {
  let stoppedMs = 0;
  const waited = (): void => {
    stoppedMs = STOPPED_MS;
  };
  return openLeases({
    databaseUrl,
    clock: { ...MACHINE_CLOCK, nowMs: () => MACHINE_CLOCK.nowMs() + stoppedMs },
    observer: { ...SILENT_OBSERVER, waited },
  });
}

async function leaseOf(answer: Promise<AcquireAnswer>): Promise<GrantedLease> {
  const granted = await answer;
  invariant(granted.outcome === 'granted', 'the test expected a grant');
  return granted.lease;
}

/** Until when a place in line counts, in epoch milliseconds of the database. */
async function validUntil(session: pg.Client, waiter: string): Promise<number> {
  const { rows } = await session.query<{ until: number }>(
    `select extract(epoch from valid_until)::float8 * 1000 as until from lease_waiter where waiter = $1`,
    [waiter],
  );
  return rows[0]?.until ?? 0;
}

/** Counts what is granted. */
function countingGrants(): { observer: StoreObserver; grantedCount: () => number } {
  let count = 0;
  const observer: StoreObserver = {
    ...SILENT_OBSERVER,
    grant: (_face, outcome) => {
      if (outcome === 'granted') count += 1;
    },
  };
  return { observer, grantedCount: () => count };
}

/** Makes statements wait before they write the rows that the trigger sees. */
async function stall(session: pg.Client, rows: string): Promise<void> {
  await session.query(`
    create function stall() returns trigger language plpgsql as
      $$ begin perform pg_advisory_xact_lock(1); return new; end $$;
    create trigger stall before ${rows} execute function stall()`);
  await session.query('select pg_advisory_lock(1)');
}

async function unstall(session: pg.Client): Promise<void> {
  await session.query('select pg_advisory_unlock(1)');
}
