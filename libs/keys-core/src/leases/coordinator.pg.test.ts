import { describe, expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import type { CallbackSql } from '../postgres/open-store.ts';
import {
  aCoordinator,
  acquired,
  aUseCase,
  makeNotes,
  note,
  openSession,
  type TestUseCase,
} from '../testing/coordinator-fixture.ts';
import {
  age,
  aRequest,
  eventsOf,
  MACHINE_CLOCK,
  openKernel,
  releaseOf,
} from '../testing/kernel-fixture.ts';
import { declarePermits } from '../testing/pool-fixture.ts';
import type { LeaseCoordinator } from './coordinator-types.ts';

/** Fails a statement as a deadlock would. */
async function loseOnce(tx: CallbackSql, tries: { count: number }, timesMax = 1): Promise<void> {
  tries.count += 1;
  if (tries.count <= timesMax) {
    await tx.$executeRaw`do $$ begin raise exception 'lost' using errcode = '40P01'; end $$`;
  }
}

describe('acquire', () => {
  test('C1 C48 grants, with a deadline in the holder’s own clock, a grace before the expiry', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const lease = aUseCase('a');
    const before = MACHINE_CLOCK.nowMs();

    const answer = await coordinator.acquire(lease, 0);

    const after = MACHINE_CLOCK.nowMs();
    expect(answer).toMatchObject({ outcome: 'granted', leaseId: lease.key() });
    expect(lease.deadlines).toHaveLength(1);
    expect(lease.deadlines[0]).toBeGreaterThan(before + 49_000);
    expect(lease.deadlines[0]).toBeLessThanOrEqual(after + 50_000);
  });

  test('commits what willInsert writes with the grant, and gives it the id, token and deadline', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const lease = aUseCase('a', {
      willInsert: (tx, at, grant) =>
        note(tx, `${grant.leaseId} ${grant.fencingToken} ${String(at)}`),
    });

    const answer = await acquired(aCoordinator(kernel), lease);

    const { leaseId, fencingToken, deadlines } = answer;
    expect(await notes()).toEqual([`${leaseId} ${fencingToken} ${String(deadlines.loseAtMs)}`]);
    expect(lease.deadlines).toEqual([deadlines.loseAtMs]);
  });

  test('rolls the grant back when willInsert throws, and the caller gets its error', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const thrown = new TypeError('mine');
    const lease = aUseCase('a', {
      async willInsert(tx) {
        await note(tx, 'x');
        throw thrown;
      },
    });

    await expect(aCoordinator(kernel).acquire(lease, 0)).rejects.toBe(thrown);

    expect(await notes()).toEqual([]);
    expect(lease.deadlines).toEqual([]);
    expect(await eventsOf(kernel, 'a')).toEqual([]);
    expect(await kernel.leases.grant(aRequest({ name: 'a' }))).toMatchObject({
      outcome: 'granted',
    });
  });

  test('retries a transaction that conflicted with another one, together with its hook', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const tries = { count: 0 };
    const lease = aUseCase('a', {
      async willInsert(tx) {
        await note(tx, 'x');
        await loseOnce(tx, tries, 2);
      },
    });

    await acquired(aCoordinator(kernel), lease);

    expect(tries.count).toBe(3);
    expect(await notes()).toEqual(['x']);
    expect(await eventsOf(kernel, 'a')).toHaveLength(1);
  });

  test('fails as contended when every try conflicts, and nothing is granted', async () => {
    const kernel = await openKernel();
    const tries = { count: 0 };
    const lease = aUseCase('a', { willInsert: (tx) => loseOnce(tx, tries, Infinity) });

    await expect(aCoordinator(kernel).acquire(lease, 0)).rejects.toMatchObject({
      code: 'grant.contended',
    });

    expect(tries.count).toBe(4);
    expect(await eventsOf(kernel, 'a')).toEqual([]);
  });

  test('rolls back a hook that takes longer than its lease lasts', async () => {
    const kernel = await openKernel();
    const lease = aUseCase('a', {
      durationMs: () => 1_000,
      willInsert: (tx) => tx.$queryRaw`select pg_sleep(60)::text`,
    });

    await expect(aCoordinator(kernel).acquire(lease, 0)).rejects.toMatchObject({
      code: 'request.deadline',
    });

    expect(await eventsOf(kernel, 'a')).toEqual([]);
  });

  test('I1 refuses the second of two processes that use one key: they are not one holder', async () => {
    const kernel = await openKernel();
    const bob = aCoordinator(kernel, 'bob');
    const lease = aUseCase('a');
    await acquired(aCoordinator(kernel, 'alice'), lease);
    const again = (): ReturnType<typeof aUseCase> => aUseCase('a', { key: () => lease.key() });

    expect(await bob.acquire(again(), 0)).toMatchObject({ outcome: 'held', by: 'alice' });
    await expect(bob.acquire(again(), 300)).rejects.toMatchObject({
      code: 'request.invalid',
      details: { field: 'key' },
    });
  });

  test.each<[string, number | null, Parameters<typeof aUseCase>[1]]>([
    ['a permit beside free ones', 3, {}],
    ['a permit while all are taken', 2, {}],
    ['a permit, with a hook', 2, { willInsert: () => undefined }],
    ['a shared lease', null, { mode: () => 'shared' as const }],
    [
      'a shared lease, with a hook',
      null,
      { mode: () => 'shared' as const, willInsert: () => undefined },
    ],
  ])('finds %s again by the key, and takes no other', async (_what, perKey, about) => {
    const kernel = await openKernel();
    if (perKey !== null) await declarePermits(kernel, { perKey });
    const other = await acquired(aCoordinator(kernel, 'bob'), aUseCase('a', about));
    const lease = aUseCase('a', about);
    const first = await acquired(aCoordinator(kernel), lease);
    // The other one expires first.
    await age(kernel, other.leaseId, 1_000);

    // Without the answer.
    const again = await acquired(aCoordinator(kernel), lease);

    expect(again).toMatchObject({ leaseId: first.leaseId, fencingToken: first.fencingToken });
    expect(await eventsOf(kernel, 'a')).toHaveLength(2);
  });

  test('grants a permit again under the key of one that was released, whichever permits are free', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 3 });
    const coordinator = aCoordinator(kernel);
    const other = await acquired(coordinator, aUseCase('a'));
    const lease = aUseCase('a');
    const first = await acquired(coordinator, lease);
    for (const one of [other, first]) await kernel.leases.release('lease', releaseOf(one));

    const again = await acquired(aCoordinator(kernel), lease);

    expect(again.leaseId).toBe(first.leaseId);
    expect(again.fencingToken).not.toBe(first.fencingToken);
  });

  test.each([
    ['comment', { comment: () => 'x'.repeat(1_025) }],
    ['comment', { comment: () => 'a\0' }],
    ['metadata', { metadata: () => ({ a: '\0' }) }],
    ['metadata', { metadata: () => 'x'.repeat(17_000) }],
    ['metadata', { metadata: () => ({ a: 1n }) }],
    ['metadata', { metadata: () => () => 1 }],
  ])('C10 refuses a bad %s, and grants nothing', async (field, about) => {
    const kernel = await openKernel();

    await expect(aCoordinator(kernel).acquire(aUseCase('a', about), 0)).rejects.toMatchObject({
      code: 'request.invalid',
      details: { field },
    });

    expect(await eventsOf(kernel, 'a')).toEqual([]);
  });
});

type Act = (coordinator: LeaseCoordinator<CallbackSql>, lease: TestUseCase) => Promise<unknown>;

describe('without hooks', () => {
  test.each<[string, Act]>([
    ['heartbeat', (coordinator, lease) => coordinator.heartbeat(lease)],
    ['releaseOk', (coordinator, lease) => coordinator.releaseOk(lease, 'done')],
    ['releaseFail', (coordinator, lease) => coordinator.releaseFail(lease, new Error('mine'))],
    ['acquireOrRenew', (coordinator, lease) => coordinator.acquireOrRenew(lease)],
  ])('%s has an unknown outcome when the connection breaks in its commit', async (_what, act) => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const lease = aUseCase('a');
    await acquired(coordinator, lease);
    const session = await openSession(kernel);
    await session.query(`
      create function stall() returns trigger language plpgsql as
        $$ begin perform pg_advisory_xact_lock(7); return null; end $$;
      create constraint trigger stall after update on lease deferrable initially deferred
        for each row execute function stall();
      select pg_advisory_lock(7)`);

    const acting = act(coordinator, lease);
    acting.catch(() => undefined);
    await waitUntil(async () => {
      const { rows } = await session.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where wait_event = 'advisory' and datname = current_database()`,
      );
      return rows.length > 0;
    });

    await expect(acting).rejects.toMatchObject({ code: 'request.outcome_unknown' });
  });
});
