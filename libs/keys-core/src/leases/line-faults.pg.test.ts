import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { grant } from '../grants/sql/grant.ts';
import { joinLine, prolongTickets } from '../grants/sql/line.ts';
import type { GrantRequest } from '../kernel/lease.ts';
import { aGate } from '../testing/coordinator-fixture.ts';
import { age, aGuard, aRequest, granted } from '../testing/kernel-fixture.ts';
import {
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
  SERVICE,
} from '../testing/lease-fixture.ts';
import { createWaitingRoom } from './waiting.ts';

/** Keeps a grant's row locked, as fenced work does. @returns a function that unlocks it. */
async function fence({ store }: Leases, leaseId: string): Promise<() => Promise<void>> {
  const begun = aGate();
  const end = aGate();
  const work = store.guests.$transaction(async (tx) => {
    await tx.$queryRaw`select 1 as one from lease where lease_id = ${leaseId}::uuid for key share`;
    begun.open();
    await end.opened;
  });
  await begun.opened;
  return async () => {
    end.open();
    await work;
  };
}

/** Lets nothing be granted for so long, as after a restore; null ends that. */
async function holdOff({ store }: Leases, seconds: number | null): Promise<void> {
  await store.general.$executeRaw`
    update database_epoch
    set hold_off_until = clock_timestamp() + ${seconds}::int * interval '1 second'`;
}

describe('the line under faults', () => {
  test('an idempotency key that waits for one lease is refused for another, and overtakes nobody there', async () => {
    const one = await openLeases();
    const [a, b] = [await acquired(one, { name: 'a' }), await acquired(one, { name: 'b' })];
    const idempotencyKey = randomUUID();
    const forA = acquire(one, { name: 'a', holder: 'k', idempotencyKey, waitMs: 30_000 });
    const forB = acquire(one, { name: 'b', holder: 'honest', waitMs: 30_000 });
    await waitUntil(
      async () => (await lineOf(one, 'a')).length + (await lineOf(one, 'b')).length === 2,
    );

    const reused = await codeOf(
      acquire(one, { name: 'b', holder: 'k', idempotencyKey, waitMs: 30_000 }),
    );
    await Promise.all([released(one, a), released(one, b)]);

    expect(reused).toBe('request.idempotency_reused');
    expect((await forB).outcome).toBe('granted');
    expect((await forA).outcome).toBe('granted');
  });

  test('a hold-off that ends in time takes no place in line from anybody; after it all are granted in their order', async () => {
    const at = await openLeases();
    const held = await acquired(at);
    const first = await inLine(at, 'first');
    const second = await inLine(at, 'second');
    const third = await inLine(at, 'third');
    // The last in line: if each were refused by itself, all others would be before it.
    const hasty = await inLine(at, 'hasty', { waitMs: 20_000 });
    await holdOff(at, 30);

    const refused = await codeOf(hasty.answer);
    await released(at, held);
    await waitUntil(async () => (await lineOf(at)).join() === 'first,second,third');
    await holdOff(at, null);
    const outcomes: string[] = [];
    // One that is granted before an earlier one keeps that waiting.
    for (const { answer } of [first, second, third]) {
      const answered = await answer;
      outcomes.push(answered.outcome);
      if (answered.outcome === 'granted') await released(at, answered.lease);
    }

    expect(refused).toBe('grant.hold_off');
    expect(outcomes).toEqual(['granted', 'granted', 'granted']);
  });

  test('a hold-off is outwaited by a request that comes later, also by its next call; one that waits for less long takes no place', async () => {
    const at = await openLeases({}, 'environment');
    await holdOff(at, 3_600);
    const wait = { action: 'deploy', waitMs: 7_200_000, idempotencyKey: randomUUID() };
    const told = await acquire(at, { ...wait, callMs: 200 });

    const hasty = { action: 'deploy', holder: 'hasty', waitMs: 1_800_000 } as const;
    const refused = [
      await codeOf(acquire(at, hasty)),
      await codeOf(acquire(at, { ...hasty, supersede: 'waiting' })),
    ];
    const places = await lineOf(at);
    const answer = acquire(at, wait);
    await holdOff(at, null);

    expect(told).toMatchObject({ outcome: 'waiting', place: 1, frozen: null });
    expect(refused).toEqual(['grant.hold_off', 'grant.hold_off']);
    expect(places).toEqual(['alice']);
    expect(await answer).toMatchObject({ outcome: 'granted' });
  });

  test('a replay that joins while its ticket is being granted finds the grant, and blocks nobody', async () => {
    const one = await openLeases();
    const two = await openLeases({ databaseUrl: one.databaseUrl });
    const idempotencyKey = randomUUID();
    const request = aRequest({
      namespace: 'user.update',
      name: '42',
      holder: 'bob',
      principal: SERVICE.principal,
      leaseId: randomUUID(),
      idempotencyKey,
      isQueued: true,
    });
    // Joined without a waiting room: its looks would be a second attempt to grant the ticket.
    const { leaseId: ticketId, holder: waiter } = request;
    await joinLine(one.store.general, [{ ...request, ticketId, waiter, idempotencyKey }]);
    const end = aGate();
    const begun = aGate();
    const guard = await aGuard(one.store);
    const granting = one.store.general.$transaction(async (tx) => {
      await grant(tx, [request], { guard, onLocked: 'wait' });
      begun.open();
      await end.opened;
    });
    await begun.opened;
    const replay = acquire(two, { holder: 'bob', idempotencyKey, waitMs: 30_000 });
    await waitUntil(() => isSomeoneWaiting(one));
    end.open();
    await granting;

    const answer = await replay;

    expect(answer).toMatchObject({ outcome: 'granted', lease: { leaseId: ticketId } });
    expect(await lineOf(one)).toEqual([]);
  });

  test('a ticket that is prolonged while it is granted is still removed by the grant', async () => {
    const one = await openLeases();
    const request = aRequest({ leaseId: randomUUID(), isQueued: true });
    const idempotencyKey = randomUUID();
    const { leaseId: ticketId, holder: waiter } = request;
    await joinLine(one.store.general, [{ ...request, ticketId, waiter, idempotencyKey }]);
    const prolonged = aGate();
    const end = aGate();
    const prolonging = one.store.general.$transaction(async (tx) => {
      await prolongTickets(tx, [ticketId]);
      prolonged.open();
      await end.opened;
    });
    await prolonged.opened;
    const guard = await aGuard(one.store);
    const granting = grant(one.store.general, [request], { guard, onLocked: 'wait' });
    await waitUntil(() => isSomeoneWaiting(one));
    end.open();
    await prolonging;

    expect((await granting).grants.has(ticketId)).toBe(true);
    expect(await one.store.general.$queryRaw`select ticket_id from lease_waiter`).toEqual([]);
  });

  test('a waiter whose grant is under way does not give up, and gets the outcome', async () => {
    const { store } = await openLeases();
    const room = createWaitingRoom(store);
    const end = aGate();
    const own = aRequest({ leaseId: randomUUID() });
    const request = { ...own, idempotencyKey: randomUUID() };
    const turn: GrantRequest = { ...request, isQueued: true };
    const startedAtMs = store.clock.nowMs();
    const giveUpAtMs = startedAtMs + 1_000;

    const waiting = room.wait({
      request,
      startedAtMs,
      giveUpAtMs,
      life: ALIVE,
      look: () => Promise.resolve(undefined),
      attempt: async () => {
        await end.opened;
        const guard = await aGuard(store);
        const { grants } = await grant(store.general, [turn], { guard, onLocked: 'wait' });
        const made = grants.get(turn.leaseId);
        if (made === undefined) throw new Error('not granted');
        return { outcome: 'granted', grant: made };
      },
      answerOf: () => {
        throw new Error('it was given up');
      },
    });
    await waitUntil(() => store.clock.nowMs() > giveUpAtMs + 200);
    end.open();

    await expect(waiting).resolves.toMatchObject({ outcome: 'granted' });
  });

  test('a timeout and a cancel at the same moment never end in a database error', async () => {
    const one = await openLeases();
    const held = await acquired(one);

    const outcomes = await Promise.all(
      Array.from({ length: 40 }, async (_, place) => {
        const idempotencyKey = randomUUID();
        const waiting = codeOf(
          acquire(one, { holder: `w${String(place)}`, idempotencyKey, waitMs: 300 }),
        );
        await new Promise<void>((resolve) => {
          one.store.clock.at(one.store.clock.nowMs() + 290 + (place % 5) * 10, resolve);
        });
        await one.service.cancel({ idempotencyKey }, SERVICE);
        return waiting;
      }),
    );

    for (const outcome of outcomes) expect(['no error', 'lease.wait_cancelled']).toContain(outcome);
    expect(await lineOf(one)).toEqual([]);
    expect(await released(one, held)).toBe('released');
  });

  test('every caller gets an answer for an expired lease whose row fenced work keeps locked', async () => {
    const one = await openLeases();
    const lease = await granted(one, { namespace: 'user.update', name: '42' });
    const letGo = await fence(one, lease.leaseId);
    await age(one, lease.leaseId, 60_000);

    // They are asked for one after the other, and the server ends work that waits for 5 s.
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, place) => acquire(one, { holder: `c${String(place)}` })),
    );
    await letGo();

    expect(new Set(answers.map(({ outcome }) => outcome))).toEqual(new Set(['held']));
    expect(await acquire(one, { holder: 'after' })).toMatchObject({ outcome: 'granted' });
  });

  test('F17 the server ends a transaction of a process that hangs, on every connection', async () => {
    const { store } = await openLeases();
    const pools = [store.general, store.transitions, store.renewals, store.slowLane, store.guests];

    const bounds = await Promise.all(
      pools.map(async (pool) => {
        const [row] = await pool.$queryRaw<{ ms: number }[]>`
          select setting::int as ms from pg_settings where name = 'idle_in_transaction_session_timeout'`;
        return row?.ms ?? 0;
      }),
    );

    for (const ms of bounds) {
      expect(ms).toBeGreaterThan(0);
      expect(ms).toBeLessThanOrEqual(10_000);
    }
  });
});
