import { describe, expect, test, vi } from 'vitest';
import { expectPrompt, waitUntil } from '@leasehold/testing';
import type { StoreOptions } from '../postgres/open-store.ts';
import { eventsOf, TRUSTING_WATCH } from '../testing/kernel-fixture.ts';
import {
  aCaller,
  acquire,
  acquired,
  inLine,
  type Leases,
  lineOf,
  openLeases,
  released,
} from '../testing/lease-fixture.ts';
import { type PassingTime, passingTime } from '../testing/passing-time.ts';

/** How often a waiter looks that receives no notification. */
const LOOK_EVERY_MS = 400;
/** For how long a waiter counts after its caller last answered. */
const DEAD_MS_MAX = 500;
/** A look at what has lapsed comes this much late, so that it is never early. */
const AFTER_LAPSE_MS = 5;

/** Two controllers whose time stands still except for what the test lets pass. */
async function twoInStillTime(
  options: Partial<StoreOptions> = {},
): Promise<{ time: PassingTime; one: Leases; two: Leases }> {
  const time = await passingTime();
  const { databaseUrl, clock } = time;
  const shared = { databaseUrl, clock, clockWatch: TRUSTING_WATCH };
  const one = await openLeases(shared);
  const two = await openLeases({ ...shared, ...options });
  await Promise.all([one.store.witness.look(), two.store.witness.look()]);
  return { time, one, two };
}

describe('a handover', () => {
  test('I10 F14 without notifications a waiter is granted what was released once 400 ms have passed', async () => {
    const { time, one, two } = await twoInStillTime();
    const looks = vi.spyOn(two.leases, 'refusal');
    two.store.hints.close();
    const held = await acquired(one);
    const { answer } = await inLine(two, 'deaf');
    let outcome: string | undefined;
    void answer.then((known) => (outcome = known.outcome));
    // It looks when it joins and a moment later; from then on it only looks by the clock.
    for (let times = 0; times < 3; times += 1) {
      const before = looks.mock.calls.length;
      await time.pass(LOOK_EVERY_MS);
      await waitUntil(() => looks.mock.calls.length > before, { what: 'a look within 400 ms' });
    }

    await released(one, held);
    await time.pass(LOOK_EVERY_MS);

    await waitUntil(() => outcome, { what: 'a grant within 400 ms' });
    expect(outcome).toBe('granted');
  });

  test('I10 a release wakes the first in line at another controller, without any time that passes', async () => {
    const { one, two } = await twoInStillTime();
    const held = await acquired(one);
    const { answer } = await inLine(two, 'next');

    await released(one, held);

    expect((await answer).outcome).toBe('granted');
  });

  test('I10 a waiter that died delays the one behind it by half a second at most', async () => {
    const { time, one, two } = await twoInStillTime();
    const held = await acquired(one);
    const dead = aCaller();
    await inLine(one, 'dead', {}, dead);
    const { answer } = await inLine(two, 'living');
    let outcome: string | undefined;
    void answer.then((known) => (outcome = known.outcome));
    dead.fallSilent();

    await released(one, held);
    // What lives is prolonged in every part of it, at both controllers.
    for (let passedMs = 0; passedMs < DEAD_MS_MAX; passedMs += 100) {
      expect(await lineOf(two)).toContain('living');
      // The database first: a ticket that is prolonged in between lasts long enough, and not 100 ms too short.
      await time.step(100);
      time.follow(100);
      await prolonged(two, 'living');
    }
    await time.pass(AFTER_LAPSE_MS);

    await waitUntil(() => outcome, { what: 'the grant of the living' });
    expect(outcome).toBe('granted');
  });

  test('I5 I10 what its holder lets expire goes to the first in line within a second, and not before the expiry', async () => {
    const on = await openLeases();
    const names = ['a', 'b', 'c'];
    for (const name of names) await acquired(on, { name, ttlMs: 1_000 });
    const before = await rowsOf(on);

    // On a slow machine some have expired by now: then nobody is seen in line.
    const answers = await Promise.all(
      names.map((name) => acquire(on, { name, holder: 'next', waitMs: 60_000 })),
    );

    const after = await rowsOf(on);
    const vacantMs = after.map(
      ({ grantedAt }, place) => grantedAt - (before[place]?.expiresAt ?? 0),
    );
    expect(answers.map(({ outcome }) => outcome)).toEqual(names.map(() => 'granted'));
    expect(Math.min(...vacantMs)).toBeGreaterThanOrEqual(0);
    // The quickest of three: what else the machine does only makes a grant later.
    expectPrompt(Math.min(...vacantMs), 1_000);
    const kinds = (await eventsOf(on, 'a')).map((line) => line.split(' ')[0]);
    expect(kinds).toEqual(['granted', 'expired', 'taken_over']);
  });
});

/**
 * Resolves when a ticket lasts for nearly half a second from now on, or has become a grant. One prolongation may be
 * missing: a ticket that is locked, because its turn is being looked at, is passed over.
 */
function prolonged({ store }: Leases, waiter: string): Promise<unknown> {
  return waitUntil(
    async () => {
      const [row] = await store.general.$queryRaw<{ leftMs: number }[]>`
        select date_part('epoch', valid_until - clock_timestamp()) * 1000 as "leftMs"
        from lease_waiter where waiter = ${waiter}`;
      return row === undefined || row.leftMs > DEAD_MS_MAX - 150;
    },
    { timeoutMs: 20_000, what: 'a ticket to be prolonged' },
  );
}

/** When each lease was granted and when it expires, by the clock of the database. */
function rowsOf({ store }: Leases): Promise<{ grantedAt: number; expiresAt: number }[]> {
  return store.general.$queryRaw`
    select date_part('epoch', granted_at) * 1000 as "grantedAt",
      date_part('epoch', expires_at) * 1000 as "expiresAt"
    from lease order by name`;
}
