import pg from 'pg';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { createTestDatabase, waitUntil } from '@leasehold/testing';
import { recordHeartbeat } from '../fleet/sql/drone-sessions.ts';
import { setLost } from '../fleet/sql/drones.ts';
import type { LeaseError } from '../kernel/errors.ts';
import { dropLapsedTickets } from '../grants/sql/line.ts';
import { aDrone } from '../testing/fleet-fixture.ts';
import { age } from '../testing/kernel-fixture.ts';
import {
  ageHeartbeat,
  CLIENT,
  connect,
  keyNamed,
  type Keys,
  openKeys,
  OPERATOR,
  reportOf,
  rowCounts,
  statesOf,
} from '../testing/keys-fixture.ts';
import { readMostWaitedFor } from '../stats/sql/stats-buckets.ts';
import { openOperatedLeases } from '../testing/lease-operations-fixture.ts';
import { passingTime } from '../testing/passing-time.ts';
import { makeClockShiftable } from '../testing/shifted-clock.ts';

const LONG_WAIT_MS = 20_000;

async function waitersOf(on: Keys): Promise<string[]> {
  const page = await on.keys.waiters({ ...keyNamed('demo'), limit: 10 }, CLIENT);
  return page.items.map(({ waiter }) => waiter);
}

/** Resolves when somebody waits in line for the key. */
function someoneWaits(on: Keys): Promise<unknown> {
  return waitUntil(async () => (await waitersOf(on)).length > 0);
}

describe('connect to a key whose backend is being stopped', () => {
  test('C31 waits until the backend has ended, and is then granted the key with a greater token', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const old = await connect(on);
    await on.keys.report(reportOf(drone, old.backendId, 'terminating', { reason: 'external' }));

    const waiting = connect(on, { waitMs: LONG_WAIT_MS });
    await someoneWaits(on);
    await on.keys.report(reportOf(drone, old.backendId, 'terminated', { reason: 'external' }));
    const next = await waiting;

    expect(next).toMatchObject({ spawned: true });
    expect(next.backendId).not.toBe(old.backendId);
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(old.fencingToken));
    expect(on.observed).toEqual(['granted free', 'granted free', 'waited granted']);
  });

  test('C31 only one of many waiting callers, at two controllers, spawns, and all get its backend', async () => {
    const on = await openKeys();
    const other = await openKeys({ databaseUrl: on.databaseUrl });
    const drone = await aDrone(on.store.general);
    const old = await connect(on);
    await on.keys.report(reportOf(drone, old.backendId, 'terminating'));

    const waiting = Array.from({ length: 16 }, (_, index) =>
      connect(index % 2 === 0 ? on : other, { waitMs: LONG_WAIT_MS }),
    );
    await waitUntil(async () => (await rowCounts(on))['waiters'] === 16);
    await on.keys.report(reportOf(drone, old.backendId, 'terminated'));
    const answers = await Promise.all(waiting);

    expect(answers.filter(({ spawned }) => spawned)).toHaveLength(1);
    expect(new Set(answers.map(({ backendId }) => backendId)).size).toBe(1);
  });

  test('C31 gets key.terminating and the time left when it may not wait, or not long enough', async () => {
    const time = await passingTime();
    const on = await openKeys({ databaseUrl: time.databaseUrl, clock: time.clock });
    const drone = await aDrone(on.store.general);
    const { backendId, leaseId } = await connect(on);
    await on.keys.report(reportOf(drone, backendId, 'hard_terminating'));
    await age(on, leaseId, 20_000);

    const atOnce = connect(on, { waitMs: 0 });
    await expect(atOnce).rejects.toMatchObject({
      code: 'key.terminating',
      details: { holder: drone.droneId, remainingMs: 40_000 },
    });
    const waiting = connect(on, { waitMs: 10_000 });
    const waited = expect(waiting).rejects.toMatchObject({
      code: 'key.terminating',
      details: { holder: drone.droneId, remainingMs: 30_000 },
    });
    await someoneWaits(on);
    await time.pass(10_000);
    await waited;

    expect(await rowCounts(on)).toMatchObject({ waiters: 0, backends: 1 });
    expect(on.observed).toContain('waited gave_up');
    expect(on.observed).not.toContain('waited granted');
  });

  test('many that give up together leave the line by few statements', async () => {
    const time = await passingTime();
    const on = await openKeys({ databaseUrl: time.databaseUrl, clock: time.clock });
    const drone = await aDrone(on.store.general);
    const { backendId } = await connect(on);
    await on.keys.report(reportOf(drone, backendId, 'hard_terminating'));
    const answers = Array.from({ length: 400 }, () =>
      connect(on, { waitMs: 10_000 }).then(
        () => 'an answer',
        (error: unknown) => (error as LeaseError).code,
      ),
    );
    await waitUntil(async () => (await rowCounts(on))['waiters'] === 400);
    const sent = vi.spyOn(pg.Client.prototype, 'query');
    onTestFinished(() => sent.mockRestore());

    await time.pass(10_000);
    const codes = await Promise.all(answers);

    // The last look of each, too, which has held its ticket once more.
    expect(sent.mock.calls.length).toBeLessThan(80);
    expect(new Set(codes)).toEqual(new Set(['key.terminating']));
    expect((await rowCounts(on))['waiters']).toBe(0);
  });

  test('is granted the key at its expiry when the backend’s end is never reported', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const old = await connect(on);
    await on.keys.report(reportOf(drone, old.backendId, 'terminating'));

    const waiting = connect(on, { waitMs: LONG_WAIT_MS });
    await someoneWaits(on);
    await age(on, old.leaseId, 60_000);

    expect(await waiting).toMatchObject({ spawned: true });
    expect((await statesOf(on, old.backendId)).now).toBe('terminated drone_lost');
  });

  test('also waits if renewal is blocked, and gets the running backend once renewal is allowed again', async () => {
    const on = await openKeys();
    await aDrone(on.store.general);
    const { backendId, leaseId } = await connect(on);
    await on.keys.blockRenewal({ leaseId }, OPERATOR);
    await expect(connect(on)).rejects.toMatchObject({ code: 'key.terminating' });

    const waiting = connect(on, { waitMs: LONG_WAIT_MS });
    await someoneWaits(on);
    await on.keys.allowRenewal({ leaseId }, OPERATOR);

    expect(await waiting).toMatchObject({ backendId, spawned: false });
  });
});

describe('connect to a key on a drone that sends no heartbeats', () => {
  test('gets key.holder_unreachable and the time left when it may not wait', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    await aDrone(on.store.general, { capacity: 0 });
    await connect(on);
    await ageHeartbeat(on, drone.droneId, 21_500);

    const error = await connect(on).catch((thrown: unknown) => thrown);

    expect(error).toMatchObject({
      code: 'key.holder_unreachable',
      details: { holder: drone.droneId },
    });
    const { remainingMs } = (error as { details: { remainingMs: number } }).details;
    expect(remainingMs).toBeGreaterThan(50_000);
    expect(remainingMs).toBeLessThanOrEqual(60_000);
  });

  test('gets key.holder_unreachable for a lost drone, too: only the drone’s own report frees a key early', async () => {
    const on = await openKeys();
    const { droneId } = await aDrone(on.store.general);
    await connect(on);
    await aDrone(on.store.general);
    await setLost(on.store.general, droneId);

    await expect(connect(on)).rejects.toMatchObject({ code: 'key.holder_unreachable' });

    expect(await rowCounts(on)).toMatchObject({ backends: 1, events: 1 });
  });

  test('gets the same backend when the drone sends heartbeats again', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId } = await connect(on);
    await ageHeartbeat(on, drone.droneId, 60_000);

    const waiting = connect(on, { waitMs: LONG_WAIT_MS });
    await someoneWaits(on);
    await recordHeartbeat(on.store.general, { ...drone, localTimeMs: 70_000, load: {} });

    expect(await waiting).toMatchObject({ backendId, spawned: false });
  });

  test('gets a backend on another drone once the key has run out', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const old = await connect(on);
    await ageHeartbeat(on, drone.droneId, 60_000);
    const other = await aDrone(on.store.general);

    const waiting = connect(on, { waitMs: LONG_WAIT_MS });
    await someoneWaits(on);
    await age(on, old.leaseId, 60_000);

    expect(await waiting).toMatchObject({ spawned: true, droneId: other.droneId });
    expect((await statesOf(on, old.backendId)).now).toBe('terminated drone_lost');
  });
});

describe('waiters', () => {
  test('are shown in the order in which they came, also among all that is waited for, and no longer after they gave up', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const { backendId } = await connect(on);
    await on.keys.report(reportOf(drone, backendId, 'terminating'));
    const giveUp = new AbortController();
    const wait = (actor: string): Promise<unknown> =>
      connect(
        on,
        { waitMs: LONG_WAIT_MS },
        { caller: { ...CLIENT, actor }, signal: giveUp.signal },
      ).catch((error: unknown) => error);

    const first = wait('first');
    await someoneWaits(on);
    const second = wait('second');
    await waitUntil(async () => (await waitersOf(on)).length === 2);
    const seen = await waitersOf(on);
    const view = await on.keys.get(keyNamed('demo'), CLIENT);
    const most = await readMostWaitedFor(on.store.guests, 10);
    giveUp.abort();
    await Promise.all([first, second]);

    expect(seen).toEqual(['first', 'second']);
    expect(view).toMatchObject({ waiters: 2 });
    expect(most).toMatchObject([{ face: 'key', name: 'demo', waiters: 2, holder: drone.droneId }]);
    expect(await waitersOf(on)).toEqual([]);
    expect(await rowCounts(on)).toMatchObject({ waiters: 0, backends: 1 });
  });
});

describe('what callers waited for', () => {
  const lately = { windowMinutes: 60, limit: 5 };

  test('has the waits for a key, those that are over too, and who held it', async () => {
    const time = await passingTime();
    const { databaseUrl, clock } = time;
    const on = await openKeys({ databaseUrl, clock });
    const { operations } = await openOperatedLeases({ databaseUrl, clock });
    const drone = await aDrone(on.store.general);
    const old = await connect(on);
    await on.keys.report(reportOf(drone, old.backendId, 'terminating'));
    const first = connect(on, { waitMs: 300 }).catch((error: unknown) => error);
    await someoneWaits(on);
    await time.pass(300);
    const refused = await first;
    const waiting = connect(on, { waitMs: LONG_WAIT_MS });
    await someoneWaits(on);
    const during = await operations.mostWaited(lately, OPERATOR);
    await on.keys.report(reportOf(drone, old.backendId, 'terminated'));
    await waiting;

    const { items } = await operations.mostWaited(lately, OPERATOR);

    expect(refused).toMatchObject({ code: 'key.terminating' });
    expect(during.items).toMatchObject([{ face: 'key', waits: 2, waiting: 1, gaveUp: 1 }]);
    expect(items).toMatchObject([
      {
        face: 'key',
        name: 'demo',
        waits: 2,
        waiting: 0,
        gaveUp: 1,
        blockers: [{ holder: drone.droneId, actor: CLIENT.actor, grants: 1 }],
      },
    ]);
    expect(items[0]?.longestMs).toBeGreaterThan(0);
  });

  test('has a wait whose controller died, also when its ticket is removed', async () => {
    const on = await openKeys();
    const { operations } = await openOperatedLeases({ databaseUrl: on.databaseUrl });
    await on.store.general.$executeRaw`
      insert into lease_waiter (face, namespace, name, ticket_id, waiter, principal, created_at, valid_until)
      select 'key', '', 'demo', gen_random_uuid(), 'gone', 'p', t.at - interval '1 second', t.at
      from (select clock_timestamp() - interval '1 minute' as at) t`;
    const before = await operations.mostWaited(lately, OPERATOR);

    expect(await dropLapsedTickets(on.store.general, 10)).toBe(1);

    const { items } = await operations.mostWaited(lately, OPERATOR);
    expect(items).toMatchObject([{ face: 'key', name: 'demo', waits: 1, gaveUp: 1 }]);
    expect(before.items).toEqual(items);
  });
});

describe('F7b connect after the database’s clock stepped forward', () => {
  test('H-first-statement takes no key over: it is refused with reason and time left, at once or after its wait', async () => {
    const { url } = await createTestDatabase();
    const shift = await makeClockShiftable(url);
    const on = await openKeys({ databaseUrl: url });
    let choiceCount = 0;
    const asking = await openKeys({
      databaseUrl: url,
      clockWatch: undefined,
      afterChoice: () => {
        choiceCount += 1;
        return Promise.resolve();
      },
    });
    const drone = await aDrone(on.store.general);
    await connect(asking);
    await shift(90_000);
    await recordHeartbeat(on.store.general, { ...drone, localTimeMs: 2_000, load: {} });
    choiceCount = 0;
    const refusal = {
      code: 'grant.hold_off',
      details: {
        reason: 'clock',
        holder: drone.droneId,
        remainingMs: expect.closeTo(60_000, -4) as number,
      },
    };

    await expect(connect(asking)).rejects.toMatchObject(refusal);
    await expect(connect(asking, { waitMs: 300 })).rejects.toMatchObject(refusal);

    expect(choiceCount).toBe(0);
    expect(await rowCounts(on)).toMatchObject({ backends: 1 });
  });
});

describe('connect to a key whose drone has another warden', () => {
  test('C47 is not sent to the old backend, which ended with the warden that ran it', async () => {
    const on = await openKeys();
    const drone = await aDrone(on.store.general);
    const old = await connect(on);
    await on.keys.report(reportOf(drone, old.backendId, 'ready', { address: 'h:1' }));
    await aDrone(on.store.general, { droneId: drone.droneId });

    const refused = connect(on, { waitMs: 0 });

    await expect(refused).rejects.toMatchObject({ code: 'key.holder_unreachable' });
    await age(on, old.leaseId, 60_000);
    expect(await connect(on)).toMatchObject({ spawned: true, droneId: drone.droneId });
  });
});
