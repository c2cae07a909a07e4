import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { describe, expect, test, vi } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import type { Clock } from '../kernel/clock.ts';
import { openSession, someoneWaits } from '../testing/coordinator-fixture.ts';
import { age, eventsOf, MACHINE_CLOCK, TRUSTING_WATCH } from '../testing/kernel-fixture.ts';
import {
  aCaller,
  acquire,
  acquired,
  codeOf,
  type Leases,
  lineOf,
  openLeases,
  released,
  SERVICE,
} from '../testing/lease-fixture.ts';
import type { CallerLife } from './lease-types.ts';

const COUNT = 1_000;
/** Ten statements for each hundred that give up, looks and tickets that are prolonged meanwhile included. */
const STATEMENTS_MAX = 100;

/** The clock of this machine, with a step. */
class SteppedClock implements Clock {
  #aheadMs = 0;

  step(ms: number): void {
    this.#aheadMs += ms;
  }

  nowMs(): number {
    return MACHINE_CLOCK.nowMs() + this.#aheadMs;
  }

  at(atMs: number, fn: () => void): () => void {
    return MACHINE_CLOCK.at(atMs - this.#aheadMs, fn);
  }
}

/** How many statements are sent until `work` ends. */
async function statementsOf(work: () => Promise<unknown>): Promise<number> {
  const sent = vi.spyOn(pg.Client.prototype, 'query');
  try {
    await work();
    return sent.mock.calls.length;
  } finally {
    sent.mockRestore();
  }
}

function keysFor(count: number): string[] {
  return Array.from({ length: count }, () => randomUUID());
}

/** So many callers in one line, each with a key of its own; what each is answered. */
async function aLongLine(
  on: Leases,
  idempotencyKeys: readonly string[],
  lifeOf: () => CallerLife = aCaller,
): Promise<Promise<string>[]> {
  const answers = idempotencyKeys.map((idempotencyKey, place) => {
    const asked = { idempotencyKey, holder: `w${String(place)}`, waitMs: 60_000 };
    let outcome = '';
    const answer = acquire(on, asked, { life: lifeOf() }).then(
      (given) => (outcome = given.outcome),
    );
    return codeOf(answer).then((code) => (code === 'no error' ? outcome : code));
  });
  await waitUntil(async () => (await lineOf(on)).length === idempotencyKeys.length);
  return answers;
}

function cancelAll(on: Leases, idempotencyKeys: readonly string[]): Promise<string[]> {
  return Promise.all(
    idempotencyKeys.map((idempotencyKey) => on.service.cancel({ idempotencyKey }, SERVICE)),
  );
}

describe('a thousand that give up together', () => {
  test('I9 leave the line by few statements when they cancel, and none is granted later', async () => {
    const one = await openLeases();
    const two = await openLeases({ databaseUrl: one.databaseUrl });
    const held = await acquired(one);
    const idempotencyKeys = keysFor(COUNT);
    const answers = await aLongLine(one, idempotencyKeys);
    let outcomes: string[] = [];
    let codes: string[] = [];

    const count = await statementsOf(async () => {
      outcomes = await cancelAll(two, idempotencyKeys);
      codes = await Promise.all(answers);
    });

    expect(count).toBeLessThan(STATEMENTS_MAX);
    expect(new Set(outcomes)).toEqual(new Set(['cancelled']));
    expect(new Set(codes)).toEqual(new Set(['lease.wait_cancelled']));
    expect(await lineOf(one)).toEqual([]);
    await released(one, held);
    const [idempotencyKey] = idempotencyKeys;
    await expect(codeOf(acquire(one, { idempotencyKey, holder: 'w0' }))).resolves.toBe(
      'lease.wait_cancelled',
    );
    expect((await acquire(one, { holder: 'after' })).outcome).toBe('granted');
  });

  test('leave the line by few statements when their time is over, each with its refusal', async () => {
    const clock = new SteppedClock();
    const one = await openLeases({ clock, clockWatch: TRUSTING_WATCH });
    await acquired(one);
    const answers = await aLongLine(one, keysFor(COUNT));
    let outcomes: string[] = [];

    const count = await statementsOf(async () => {
      clock.step(60_000);
      outcomes = await Promise.all(answers);
    });

    expect(count).toBeLessThan(STATEMENTS_MAX);
    expect(new Set(outcomes)).toEqual(new Set(['held']));
    expect(await lineOf(one)).toEqual([]);
  });

  test('send nothing when their connection is lost: their places lapse', async () => {
    const one = await openLeases();
    await acquired(one);
    const callers: ReturnType<typeof aCaller>[] = [];
    const answers = await aLongLine(one, keysFor(COUNT), () => {
      const caller = aCaller();
      callers.push(caller);
      return caller;
    });
    let codes: string[] = [];

    const count = await statementsOf(async () => {
      for (const caller of callers) caller.vanish();
      codes = await Promise.all(answers);
    });

    expect(count).toBeLessThan(STATEMENTS_MAX);
    expect(new Set(codes)).toEqual(new Set(['lease.wait_cancelled']));
    await waitUntil(async () => (await lineOf(one)).length === 0);
  });

  test('I9 by few statements whatever has become of each, and each is told what', async () => {
    const one = await openLeases();
    const keys = keysFor(COUNT);
    const places = await Promise.all(
      keys.map(async (idempotencyKey, place) => {
        const name = `n${String(place)}`;
        const kind = place % 4;
        // It has not come yet; or it was refused; or it was granted, and perhaps has expired.
        if (kind === 0) return { name, expected: 'not_found' };
        if (kind === 1) await acquired(one, { name, holder: 'other' });
        await acquire(one, { name, idempotencyKey });
        return { name, expected: kind === 1 ? 'not_found' : 'released' };
      }),
    );
    const expired = await acquire(one, { name: 'n3', idempotencyKey: keys[3] as string });
    if (expired.outcome === 'granted') await age(one, expired.lease.leaseId, 120_000);
    let outcomes: string[] = [];

    const count = await statementsOf(async () => {
      outcomes = await cancelAll(one, keys);
    });

    expect(count).toBeLessThan(STATEMENTS_MAX);
    expect(outcomes).toEqual(
      places.map(({ expected }, place) => (place === 3 ? 'not_found' : expected)),
    );
    expect(await eventsOf(one, 'n2')).toEqual([
      expect.stringMatching(/^granted /u),
      expect.stringMatching(/^released /u),
    ]);
    const again = await Promise.all(
      keys.map((idempotencyKey, place) =>
        codeOf(acquire(one, { name: `n${String(place)}`, idempotencyKey })),
      ),
    );
    // A refusal stays the answer.
    expect(again).toEqual(
      keys.map((_, place) => (place % 4 === 1 ? 'no error' : 'lease.wait_cancelled')),
    );
  });

  test('wait for no place that another transaction has locked, and that one ends when it is unlocked', async () => {
    const clock = new SteppedClock();
    const one = await openLeases({ clock, clockWatch: TRUSTING_WATCH });
    const held = await acquired(one);
    const keys = keysFor(20);
    const answers = await aLongLine(one, keys);
    const session = await openSession(one);
    await session.query('begin');
    await session.query(`select from lease_waiter where waiter in ('w3', 'w13') for update`);
    const [locked = '', ...others] = keys.slice(3, 10);
    const late = vi.fn();

    const cancelled = one.service.cancel({ idempotencyKey: locked }, SERVICE);
    cancelled.finally(late).catch(() => undefined);
    const outcomes = await cancelAll(one, others);
    await Promise.all(answers.slice(4, 10));
    await someoneWaits(one);
    clock.step(60_000);
    const timedOut = await Promise.all([...answers.slice(0, 3), ...answers.slice(14)]);
    const lateCount = late.mock.calls.length;
    await session.query('commit');

    expect(new Set(outcomes)).toEqual(new Set(['cancelled']));
    expect(new Set(timedOut)).toEqual(new Set(['held']));
    expect(lateCount).toBe(0);
    await expect(cancelled).resolves.toBe('cancelled');
    await expect(answers[3]).resolves.toBe('lease.wait_cancelled');
    await expect(answers[13]).resolves.toBe('held');
    expect(await lineOf(one)).toEqual([]);
    expect(await released(one, held)).toBe('released');
  });

  test('a key of another face fails alone', async () => {
    const one = await openLeases();
    const other = await openLeases({ databaseUrl: one.databaseUrl }, 'environment');
    const keys = keysFor(10);
    await acquired(other, { idempotencyKey: keys[4] as string, action: 'deploy' });

    const codes = await Promise.all(
      keys.map((idempotencyKey) => codeOf(one.service.cancel({ idempotencyKey }, SERVICE))),
    );

    expect(codes).toEqual(
      keys.map((_, place) => (place === 4 ? 'request.idempotency_reused' : 'no error')),
    );
  });
});
