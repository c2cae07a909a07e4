import { waitUntil } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import { KEY_LADDERS, serviceLadder } from '../kernel/ladder.ts';
import { createReaper } from '../keys/index.ts';
import {
  createClockJumpNotes,
  readAgeBelief,
  readClockJump,
} from '../postgres/clock/clock-jumps.ts';
import { aRequest, eventsOf, granted, type Kernel, renewalOf } from '../testing/kernel-fixture.ts';
import { remove } from '../testing/model/remove.ts';
import { type PassingTime, passingTime, passWatched } from '../testing/passing-time.ts';
import { createFreeRowRemover, createOldRequestRemover, removeOldLeaseRows } from './index.ts';
import { guardNow } from './sql/guard.ts';
import { endStale } from './sql/reap.ts';
import { acquireOrRenew } from './sql/renew.ts';
import { revoke } from './sql/revoke.ts';

const TTL_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** A process that has watched the clock for a while. */
async function longWatched(time: PassingTime): Promise<Kernel> {
  const kernel = await time.open();
  await kernel.store.witness.look();
  await passWatched(time, 2 * TTL_MS, kernel);
  return kernel;
}

/** Lets time pass, watched by the process, until a new grant has only `leftMs` left. */
async function untilLeft(time: PassingTime, kernel: Kernel, leftMs: number): Promise<void> {
  await passWatched(time, TTL_MS - leftMs, kernel);
}

/** Lets much time pass, in parts that are no steps: what runs meanwhile may read one clock before the other is set. */
async function passLong(time: PassingTime, ms: number): Promise<void> {
  const partMs = HOUR_MS / 2;
  for (let leftMs = ms; leftMs > 0; leftMs -= partMs) await time.pass(Math.min(leftMs, partMs));
}

describe('F7 the database clock steps', () => {
  test.each([300, 1_000, 3_000, 5_000, 90_000])(
    'H-first-statement F7b the first statement after a step of %i ms takes nothing over',
    async (stepMs) => {
      const time = await passingTime();
      const kernel = await longWatched(time);
      const grant = await granted(kernel);
      await untilLeft(time, kernel, Math.min(stepMs, TTL_MS) / 2);

      await time.step(stepMs);
      const outcome = await kernel.leases.grant(aRequest());

      expect(outcome).toMatchObject({ outcome: 'held', by: { leaseId: grant.leaseId } });
      expect(await eventsOf(kernel, 'thing')).toEqual([`granted ${grant.fencingToken}`]);
    },
  );

  test('H-first-statement no other statement that acts on expiry trusts the step either', async () => {
    const time = await passingTime();
    const kernel = await longWatched(time);
    const grant = await granted(kernel);
    await untilLeft(time, kernel, 500);
    const { store } = kernel;

    await time.step(1_000);
    const guard = guardNow(store);
    const page = { after: undefined, limit: 10, belief: guard.belief };
    const ended = await endStale(store.general, { namespace: '', includeChildren: true }, page);
    const by = { actor: 'op', belief: guard.belief };
    const removed = await remove(store.general, 'lease', [grant.leaseId], by);
    const renewed = await acquireOrRenew(store.general, aRequest({ holder: 'bob' }), guard);
    const reaped = await createReaper(store).runOnce();

    expect(ended.endedCount).toBe(0);
    expect([...removed]).toEqual([]);
    expect(renewed).toBeUndefined();
    expect(reaped.reapedCount).toBe(0);
    expect(await eventsOf(kernel, 'thing')).toEqual([`granted ${grant.fencingToken}`]);
  });

  test('F7b a key that was ended by force is held back for as long as its backend may run', async () => {
    const time = await passingTime();
    const kernel = await longWatched(time);
    const key = { face: 'key', name: 'k', ladder: KEY_LADDERS.standard } as const;
    const { leaseId } = await granted(kernel, key);
    await revoke(kernel.store.general, 'key', [
      { leaseId, mode: 'force', abandon: false, actor: 'op', reason: 'r', namespaces: null },
    ]);

    await time.step(90_000);
    const early = await kernel.leases.grant(aRequest(key));
    await passWatched(time, TTL_MS, kernel);

    expect(early).toMatchObject({ outcome: 'held', doubtMs: TTL_MS });
    expect(await kernel.leases.grant(aRequest(key))).toMatchObject({ outcome: 'granted' });
  });

  test('F7b each grant is held back for its own TTL: one of a minute beside one of an hour', async () => {
    const time = await passingTime();
    const kernel = await longWatched(time);
    await granted(kernel, { name: 'minute' });
    await granted(kernel, { name: 'hour', ladder: serviceLadder(HOUR_MS) });
    const ask = async (name: string): Promise<string> =>
      (await kernel.leases.grant(aRequest({ name }))).outcome;

    await time.step(2 * HOUR_MS);
    const atOnce = [await ask('minute'), await ask('hour')];
    await passWatched(time, TTL_MS, kernel);
    const afterAMinute = [await ask('minute'), await ask('hour')];
    await passWatched(time, HOUR_MS, kernel);

    expect(atOnce).toEqual(['held', 'held']);
    expect(afterAMinute).toEqual(['granted', 'held']);
    expect(await ask('hour')).toBe('granted');
  });

  test('F7b a grant that was renewed after the step expires in its time', async () => {
    const time = await passingTime();
    const kernel = await longWatched(time);
    await time.step(90_000);
    await kernel.store.witness.look();
    await granted(kernel);

    await passWatched(time, TTL_MS, kernel);

    expect(await kernel.leases.grant(aRequest())).toMatchObject({ outcome: 'granted' });
  });

  test('F7b a row that looks old only because of a step is not deleted, and its resource is not granted', async () => {
    const time = await passingTime();
    const kernel = await longWatched(time);
    const grant = await granted(kernel);
    await time.step(30 * 24 * HOUR_MS);
    await kernel.leases.renew('lease', renewalOf(grant));
    await kernel.store.general.$executeRaw`delete from lease_reap`;

    const deletedCount = await createFreeRowRemover(kernel.store).runOnce();

    expect(deletedCount).toBe(0);
    expect(await kernel.leases.grant(aRequest())).toMatchObject({ outcome: 'held' });
  });

  test('F7b what looks old only because of a step is not removed, by any process, until the step has lasted as long as it was far', async () => {
    const time = await passingTime();
    const kernel = await longWatched(time);
    const { general } = kernel.store;
    await general.$executeRaw`
      insert into lease_reap (lease_id, face, namespace, name, fencing_token, expired_at)
      values (gen_random_uuid(), 'lease', '', 'thing', 1, clock_timestamp())`;
    await general.$executeRaw`
      insert into lease_request (id, answer, created_at)
      values (lease_request_id('p', 'k'), '{}', clock_timestamp())`;
    const left = async ({ store }: Kernel): Promise<unknown> => {
      const isAgeBelieved = async (): Promise<boolean> =>
        (await readAgeBelief(store)) === 'believed';
      const onFailure = (_kind: string, error: unknown): void => expect.unreachable(String(error));
      await removeOldLeaseRows(store.general, 30, { clock: time.clock, isAgeBelieved, onFailure });
      await createOldRequestRemover(store).runOnce();
      const [counts] = await general.$queryRaw<unknown[]>`
        select (select count(*)::int from lease_reap) as callbacks,
          (select count(*)::int from lease_request) as requests`;
      return counts;
    };

    await time.step(DAY_MS + HOUR_MS);
    const unseen = await left(kernel);
    await kernel.store.witness.look();
    await waitUntil(async () => (await readAgeBelief(kernel.store)) === 'stepped');
    // One that starts after the step has only the note of it.
    const later = await longWatched(time);
    await passWatched(time, 5 * 60_000, kernel, later);
    const stepped = [await left(kernel), await left(later)];
    await passLong(time, DAY_MS);
    await passWatched(time, HOUR_MS, kernel, later);

    const all = { callbacks: 1, requests: 1 };
    expect([unseen, ...stepped]).toEqual([all, all, all]);
    expect(await left(later)).toEqual({ callbacks: 0, requests: 0 });
  });

  test('F7b rows are removed again once a step has been undone', async () => {
    const time = await passingTime();
    const kernel = await longWatched(time);
    const believed = (): Promise<unknown> => readAgeBelief(kernel.store);

    await time.step(2 * DAY_MS);
    await kernel.store.witness.look();
    await waitUntil(async () => (await believed()) === 'stepped');
    await time.step(-2 * DAY_MS);
    const atOnce = await believed();
    await passWatched(time, 2 * 60_000, kernel);
    const soon = await believed();
    await passLong(time, 2 * DAY_MS + HOUR_MS);
    await passWatched(time, 2 * 60_000, kernel);

    expect([atOnce, soon, await believed()]).toEqual(['unwatched', 'believed', 'believed']);
  });

  test('F7b a step is written down though the table of grants cannot be read', async () => {
    const time = await passingTime();
    const kernel = await longWatched(time);
    await kernel.leases.grant(aRequest({ ladder: serviceLadder(HOUR_MS) }));
    const { general } = kernel.store;
    const notes = createClockJumpNotes(general);

    await general.$transaction(async (tx) => {
      await tx.$executeRaw`lock table lease in access exclusive mode`;
      notes.add(DAY_MS);
      await notes.flush();
    });

    expect(await readClockJump(general)).toMatchObject({ jumpMs: DAY_MS, remainingMs: HOUR_MS });
    expect(await readAgeBelief(kernel.store)).toBe('stepped');
  });

  test('back: a grant whose renewal was refused as expired stays expired', async () => {
    const time = await passingTime();
    const kernel = await longWatched(time);
    const grant = await granted(kernel, { ladder: serviceLadder(1_000) });

    await time.step(5_000);
    const expired = await kernel.leases.renew('lease', renewalOf(grant));
    await time.step(-5_000);
    const after = await kernel.leases.renew('lease', renewalOf(grant));

    expect(expired).toMatchObject({ outcome: 'refused', reason: 'expired' });
    expect(after).toMatchObject({ outcome: 'refused', reason: 'expired' });
    expect(await eventsOf(kernel, 'thing')).toEqual([
      `granted ${grant.fencingToken}`,
      `expired ${grant.fencingToken}`,
    ]);
  });
});

describe('a statement that is late', () => {
  test('takes nothing over itself; its request is granted in the slow lane', async () => {
    const time = await passingTime();
    const kernel = await longWatched(time);
    const grant = await granted(kernel);
    await untilLeft(time, kernel, -1_000);
    const { store } = kernel;
    const busy = await occupy(store.transitions, 8);

    const asked = kernel.leases.grant(aRequest());
    await untilQueued();
    await time.pass(2_000);
    await busy.end();

    expect(await asked).toMatchObject({
      outcome: 'granted',
      grant: { previous: { leaseId: grant.leaseId } },
    });
  });
});

describe('a process that starts', () => {
  test('H-first-statement right after a step takes nothing over until a TTL has passed', async () => {
    const time = await passingTime();
    const first = await longWatched(time);
    await granted(first);
    await time.step(90_000);

    const second = await time.open();
    const early = await second.leases.grant(aRequest());
    await passWatched(time, TTL_MS - 1, second);
    const later = await second.leases.grant(aRequest());
    await passWatched(time, 1, second);

    expect(early).toMatchObject({ outcome: 'held', doubtMs: TTL_MS });
    expect(later).toMatchObject({ outcome: 'held', doubtMs: 1 });
    expect(await second.leases.grant(aRequest())).toMatchObject({ outcome: 'granted' });
  });

  test('takes over without waiting a TTL when another process has watched and neither has seen a step', async () => {
    const time = await passingTime();
    const first = await longWatched(time);
    await granted(first);
    await untilLeft(time, first, 500);
    await time.pass(1_000);

    const second = await time.open();
    const before = await second.leases.grant(aRequest());
    await passWatched(time, 1_000, first, second);

    expect(before).toMatchObject({ outcome: 'held' });
    expect(await second.leases.grant(aRequest())).toMatchObject({ outcome: 'granted' });
  });

  test('H-first-statement right after a step does not trust another process that has not seen the step yet', async () => {
    const time = await passingTime();
    const first = await longWatched(time);
    await granted(first);
    await time.step(90_000);
    const second = await time.open();
    await second.store.witness.look();

    await first.store.witness.look();
    await second.store.witness.look();

    expect(await second.leases.grant(aRequest())).toMatchObject({ outcome: 'held' });
  });

  test('takes over at once after a restart on the same boot', async () => {
    const time = await passingTime();
    const first = await longWatched(time);
    await granted(first);
    const { memory: watch } = first.store.clockWatch;
    await first.store.close();
    await time.pass(TTL_MS);

    const second = await time.open({ remembered: { longestTtlMs: TTL_MS, watch } });

    expect(await second.leases.grant(aRequest())).toMatchObject({ outcome: 'granted' });
  });

  test('alone after a reboot takes over what expired while a process watched, and waits a TTL for the rest', async () => {
    const time = await passingTime();
    const first = await longWatched(time);
    await granted(first, { name: 'ran out watched' });
    await passWatched(time, TTL_MS, first);
    await granted(first, { name: 'ran out unwatched' });
    await passWatched(time, 2_000, first);
    await first.store.close();
    await time.pass(HOUR_MS);

    const second = await time.open();
    const watched = await second.leases.grant(aRequest({ name: 'ran out watched' }));
    const unwatched = await second.leases.grant(aRequest({ name: 'ran out unwatched' }));
    await passWatched(time, TTL_MS, second);

    expect(watched).toMatchObject({ outcome: 'granted' });
    expect(unwatched).toMatchObject({ outcome: 'held', doubtMs: TTL_MS });
    expect(await second.leases.grant(aRequest({ name: 'ran out unwatched' }))).toMatchObject({
      outcome: 'granted',
    });
  });

  test('does not take as settled what was settled only by a clock that was ahead and has come back', async () => {
    const time = await passingTime();
    const first = await longWatched(time);
    await time.step(HOUR_MS);
    await passWatched(time, 2 * TTL_MS, first);
    await time.step(-HOUR_MS);
    await first.store.witness.look();
    await granted(first);
    await first.store.close();
    await time.pass(TTL_MS - 1_000);
    await time.step(2_000);

    const second = await time.open();

    expect(await second.leases.grant(aRequest())).toMatchObject({ outcome: 'held' });
  });
});

/** Keeps `count` connections of a pool busy until `end` is called. */
async function occupy(
  pool: Kernel['store']['transitions'],
  count: number,
): Promise<{ end: () => Promise<void> }> {
  let letGo = (): void => undefined;
  const end = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const begun: Promise<void>[] = [];
  const done = Array.from({ length: count }, () => {
    let begin = (): void => undefined;
    begun.push(
      new Promise((resolve) => {
        begin = resolve;
      }),
    );
    return pool.$transaction(async (tx) => {
      await tx.$queryRaw`select 1 as one`;
      begin();
      await end;
    });
  });
  await Promise.all(begun);
  return {
    async end() {
      letGo();
      await Promise.all(done);
    },
  };
}

/** Waits until the requests sent before are in a batch that waits for a connection. */
async function untilQueued(): Promise<void> {
  for (let turns = 0; turns < 50; turns += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}
