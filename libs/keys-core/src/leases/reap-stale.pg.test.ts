import { describe, expect, test } from 'vitest';
import { createTestDatabase, repetitions, waitUntil } from '@leasehold/testing';
import { removeOldLeaseRows } from '../grants/sql/retention.ts';
import { createReaper } from '../keys/index.ts';
import { SILENT_OBSERVER } from '../postgres/kernel-store.ts';
import type { CallbackSql } from '../postgres/open-store.ts';
import {
  aCoordinator,
  aGate,
  makeNotes,
  note,
  openSession,
} from '../testing/coordinator-fixture.ts';
import {
  age,
  aRequest,
  eventsOf,
  granted,
  type Kernel,
  MACHINE_CLOCK,
  openKernel,
} from '../testing/kernel-fixture.ts';
import { createSlowDatabase, makeClockShiftable } from '../testing/shifted-clock.ts';
import type { ReapCallback } from './coordinator-types.ts';

/** Leases whose callbacks sometimes fail. */
const FLAKY_COUNT = repetitions({ gate: 24, short: 60, long: 60 });

/** Grants each and lets it run out. */
async function stale(kernel: Kernel, names: readonly string[], namespace = 'test') {
  const grants = await Promise.all(names.map((name) => granted(kernel, { name, namespace })));
  await Promise.all(grants.map((grant) => age(kernel, grant.leaseId, 60_000)));
  return grants;
}

const noteIt: ReapCallback<CallbackSql> = (leaseId, scope, tx, grant) =>
  note(tx, [scope.namespace.join('.'), scope.key, leaseId, grant.fencingToken].join(' '));

interface ReapState {
  attempts: number;
  lastError: string | null;
  /** How long until it is tried again, in milliseconds. */
  waitMs: number | null;
}

function reapRows(kernel: Kernel): Promise<ReapState[]> {
  return kernel.store.general.$queryRaw<ReapState[]>`
    select attempts, last_error as "lastError",
      extract(epoch from next_attempt_at - clock_timestamp())::float8 * 1000 as "waitMs"
    from lease_reap order by expired_at`;
}

async function makeDue(kernel: Kernel): Promise<void> {
  // The present would be rounded up to the next millisecond.
  await kernel.store.general.$executeRaw`
    update lease_reap set next_attempt_at = clock_timestamp() - interval '1 millisecond'`;
}

describe('reapStaleLeases', () => {
  test('ends expired leases, calls back with scope, id and token, and leaves the others alone', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const [grant] = await stale(kernel, ['a']);
    await granted(kernel, { name: 'living' });

    const first = await aCoordinator(kernel).reapStaleLeases([['test']], false, noteIt);
    const second = await aCoordinator(kernel).reapStaleLeases([['test']], false, noteIt);

    expect(first).toEqual({ endedCount: 1, calledCount: 1, failedCount: 0 });
    expect(second).toEqual({ endedCount: 0, calledCount: 0, failedCount: 0 });
    expect(await notes()).toEqual([`test a ${grant?.leaseId ?? ''} ${grant?.fencingToken ?? ''}`]);
    expect(await eventsOf(kernel, 'a')).toHaveLength(2);
    expect(await kernel.leases.grant(aRequest({ name: 'living' }))).toMatchObject({
      outcome: 'held',
    });
  });

  test('C58 calls back once for a lease that was taken over before any reaper ran, and the new holder keeps it', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const [old] = await stale(kernel, ['a']);
    const next = await granted(kernel, { name: 'a', holder: 'bob' });

    const result = await aCoordinator(kernel).reapStaleLeases([['test']], false, noteIt);
    await aCoordinator(kernel).reapStaleLeases([['test']], false, noteIt);

    expect(result).toMatchObject({ endedCount: 0, calledCount: 1 });
    expect(await notes()).toEqual([`test a ${old?.leaseId ?? ''} ${old?.fencingToken ?? ''}`]);
    expect(await kernel.leases.grant(aRequest({ name: 'a' }))).toMatchObject({
      outcome: 'held',
      by: { leaseId: next.leaseId },
    });
  });

  test('C58 calls back once for a lease that the general reaper, a late renewal or a late release ended', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const [, renewed, released] = await stale(kernel, ['reaped', 'renewed', 'released']);
    const ref = (grant: typeof renewed) => ({
      leaseId: grant?.leaseId ?? '',
      fencingToken: grant?.fencingToken ?? '',
      principal: 'token-a',
    });
    await kernel.leases.renew('lease', ref(renewed));
    await kernel.leases.release('lease', {
      ...ref(released),
      actor: 'a',
      result: 'ok',
      detail: null,
    });
    await createReaper(kernel.store).runOnce();

    const result = await aCoordinator(kernel).reapStaleLeases([['test']], false, noteIt);
    await aCoordinator(kernel).reapStaleLeases([['test']], false, noteIt);

    expect(result).toMatchObject({ endedCount: 0, calledCount: 3 });
    expect((await notes()).map((line) => line.split(' ')[1]).sort()).toEqual([
      'reaped',
      'released',
      'renewed',
    ]);
  });

  test('calls back for what was never tried before what has failed, of which the longest due is first', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const asked: string[] = [];
    const failing: ReapCallback<CallbackSql> = (_id, scope) => {
      asked.push(scope.key);
      throw new Error('no');
    };
    await stale(kernel, ['one', 'other']);
    await coordinator.reapStaleLeases([['test']], false, failing);
    await kernel.store.general.$executeRaw`
      update lease_reap
      set next_attempt_at = clock_timestamp() - case name when 'one' then 1 else 2 end * interval '1 second'`;
    await stale(kernel, ['new']);
    asked.length = 0;

    const result = await coordinator.reapStaleLeases([['test']], false, failing);

    expect(asked).toEqual(['new', 'other', 'one']);
    expect(result).toEqual({ endedCount: 1, calledCount: 0, failedCount: 3 });
  });

  test.each([
    ['leases that it ends', false],
    ['leases that the general reaper has ended', true],
  ])(
    'of %s, reaps its namespaces: children only where asked, siblings and others never',
    async (_, areEnded) => {
      const kernel = await openKernel();
      const notes = await makeNotes(kernel);
      const coordinator = aCoordinator(kernel);
      for (const namespace of ['user', 'user.a', 'user.a.b', 'user2', 'user-x', 'us_r', '']) {
        await stale(kernel, ['n'], namespace);
      }
      if (areEnded) await createReaper(kernel.store).runOnce();
      const reaped = async (
        namespaces: string[][],
        includeChildren: boolean,
      ): Promise<string[]> => {
        await kernel.store.general.$executeRaw`truncate note`;
        await coordinator.reapStaleLeases(namespaces, includeChildren, noteIt);
        return (await notes()).map((line) => line.split(' ')[0] ?? '').sort();
      };

      expect(await reaped([['us_r']], true)).toEqual(['us_r']);
      expect(await reaped([['user']], false)).toEqual(['user']);
      expect(await reaped([['user', 'a']], false)).toEqual(['user.a']);
      expect(await reaped([['user'], ['nothing']], true)).toEqual(['user.a.b']);
      expect(await reaped([[]], false)).toEqual(['']);
      expect(await reaped([[]], true)).toEqual(['user-x', 'user2']);
      await expect(coordinator.reapStaleLeases([['a.b']], true, noteIt)).rejects.toMatchObject({
        code: 'request.invalid',
      });
    },
  );

  test('leaves keys and environments of the same namespace to others', async () => {
    const kernel = await openKernel();
    const environment = await granted(kernel, { face: 'environment' });
    await age(kernel, environment.leaseId, 60_000);

    const result = await aCoordinator(kernel).reapStaleLeases([['test']], true, noteIt);

    expect(result).toMatchObject({ endedCount: 0, calledCount: 0 });
  });

  test('rolls back, records and counts a callback that throws, and continues with the others', async () => {
    const told: string[] = [];
    const kernel = await openKernel({
      databaseUrl: await createSlowDatabase(),
      observer: { ...SILENT_OBSERVER, reapCallback: (outcome) => told.push(outcome) },
    });
    const notes = await makeNotes(kernel);
    const coordinator = aCoordinator(kernel);
    await stale(kernel, ['a', 'bad', 'c']);
    const failing: ReapCallback<CallbackSql> = async (_leaseId, scope, tx) => {
      await note(tx, scope.key);
      if (scope.key === 'bad') throw new Error('no\0 luck');
    };

    const first = await coordinator.reapStaleLeases([['test']], false, failing);
    const at1 = await reapRows(kernel);
    const tooSoon = await coordinator.reapStaleLeases([['test']], false, failing);
    await makeDue(kernel);
    const second = await coordinator.reapStaleLeases([['test']], false, failing);
    const at2 = await reapRows(kernel);
    await makeDue(kernel);
    const third = await coordinator.reapStaleLeases([['test']], false, noteIt);

    expect(first).toEqual({ endedCount: 3, calledCount: 2, failedCount: 1 });
    expect(at1).toMatchObject([{ attempts: 1, lastError: 'no luck' }]);
    expect(at1[0]?.waitMs).toBeGreaterThan(0);
    // A second, rounded to milliseconds.
    expect(at1[0]?.waitMs).toBeLessThan(1_001);
    expect(tooSoon).toMatchObject({ calledCount: 0, failedCount: 0 });
    expect(second).toMatchObject({ calledCount: 0, failedCount: 1 });
    expect(at2[0]?.attempts).toBe(2);
    expect(at2[0]?.waitMs).toBeGreaterThan(1_000);
    expect(third).toMatchObject({ calledCount: 1 });
    expect((await notes()).map((line) => line.split(' ')[0]).sort()).toEqual(['a', 'c', 'test']);
    expect(told.filter((outcome) => outcome === 'failed')).toHaveLength(2);
    expect(told.filter((outcome) => outcome === 'done')).toHaveLength(3);
  });

  test('a slow callback delays neither the callbacks of another reaper nor new grants', async () => {
    const kernel = await openKernel();
    const other = await openKernel({ databaseUrl: kernel.databaseUrl });
    const notes = await makeNotes(kernel);
    await stale(kernel, ['a', 'b']);
    const goOn = aGate();
    const begun = aGate();

    const slow = aCoordinator(kernel).reapStaleLeases([['test']], false, async (id, scope, tx) => {
      await note(tx, `slow ${scope.key} ${id}`);
      begun.open();
      await goOn.opened;
    });
    await begun.opened;
    const quick = await aCoordinator(other).reapStaleLeases([['test']], false, noteIt);
    const regrants = await Promise.all(
      ['a', 'b'].map((name) => other.leases.grant(aRequest({ name }))),
    );
    goOn.open();

    expect(quick).toMatchObject({ calledCount: 1 });
    expect(regrants.map((outcome) => outcome.outcome)).toEqual(['granted', 'granted']);
    expect(await slow).toMatchObject({ calledCount: 1 });
    expect(await notes()).toHaveLength(2);
  });

  test('commits each callback exactly once, with three reapers at once and a callback that sometimes fails', async () => {
    const kernel = await openKernel();
    const others = await Promise.all(
      [1, 2].map(() => openKernel({ databaseUrl: kernel.databaseUrl })),
    );
    const notes = await makeNotes(kernel);
    const names = Array.from({ length: FLAKY_COUNT }, (_, index) => `n${String(index)}`);
    const grants = await stale(kernel, names);
    // A third is taken over first, a third swept by the general reaper first.
    for (const name of names.slice(0, FLAKY_COUNT / 3)) await granted(kernel, { name });
    await createReaper(kernel.store).runOnce();
    let callCount = 0;
    const flaky: ReapCallback<CallbackSql> = async (leaseId, _scope, tx) => {
      callCount += 1;
      const failsNow = callCount % 3 === 0;
      const losesNow = callCount % 7 === 0;
      await note(tx, leaseId);
      if (losesNow) {
        await tx.$executeRaw`do $$ begin raise exception 'lost' using errcode = '40001'; end $$`;
      }
      if (failsNow) throw new Error('now and then');
    };

    await waitUntil(
      async () => {
        await makeDue(kernel);
        await Promise.all(
          [kernel, ...others].map((one) =>
            aCoordinator(one).reapStaleLeases([['test']], false, flaky),
          ),
        );
        return (await reapRows(kernel)).length === 0;
      },
      { timeoutMs: 25_000 },
    );

    expect((await notes()).sort()).toEqual(grants.map((grant) => grant.leaseId).sort());
    expect(callCount).toBeGreaterThan(FLAKY_COUNT);
  });

  test('a reaper that dies in a callback leaves the row for the next', async () => {
    const kernel = await openKernel();
    const doomed = await openKernel({ databaseUrl: kernel.databaseUrl });
    const notes = await makeNotes(kernel);
    await stale(kernel, ['a']);
    const begun = aGate();
    const dying = aCoordinator(doomed).reapStaleLeases([['test']], false, async (id, scope, tx) => {
      await note(tx, `dying ${scope.key} ${id}`);
      begun.open();
      await new Promise(() => undefined);
    });
    dying.catch(() => undefined);
    await begun.opened;
    await kernel.store.general.$queryRaw`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and state = 'idle in transaction'`;

    const result = await waitUntil(async () => {
      const reaped = await aCoordinator(kernel).reapStaleLeases([['test']], false, noteIt);
      return reaped.calledCount === 1 ? reaped : undefined;
    });

    expect(result).toMatchObject({ calledCount: 1, failedCount: 0 });
    expect(await notes()).toHaveLength(1);
  });

  test('ends nothing after the database’s clock has jumped', async () => {
    const { url } = await createTestDatabase();
    const shift = await makeClockShiftable(url);
    const kernel = await openKernel({ databaseUrl: url, clockWatch: undefined });
    await granted(kernel, { name: 'a' });
    await shift(120_000);

    const unnoticed = await aCoordinator(kernel).reapStaleLeases([['test']], false, noteIt);
    await kernel.leases.grant(aRequest({ name: 'b' }));
    const noticed = await aCoordinator(kernel).reapStaleLeases([['test']], false, noteIt);

    expect([unnoticed.endedCount, noticed.endedCount]).toEqual([0, 0]);
    expect(await eventsOf(kernel, 'a')).toHaveLength(1);
  });

  test('reads a large namespace page by page, and finds every expired lease in it', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const session = await openSession(kernel);
    await session.query(`
      insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, tag,
        ttl_ms, renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at)
      select 'lease', 'test', 'n' || lpad(n::text, 6, '0'), gen_random_uuid(), n, 'h', 'token-a', '',
        60000, 20000, 50000, 50000, clock_timestamp(), clock_timestamp(),
        clock_timestamp() + case when n % 3000 = 0 then interval '-1 second' else interval '1 hour' end
      from generate_series(1, 12001) n`);

    const result = await aCoordinator(kernel).reapStaleLeases([['test']], true, (_id, scope, tx) =>
      note(tx, scope.key),
    );

    expect(result).toEqual({ endedCount: 4, calledCount: 4, failedCount: 0 });
    expect((await notes()).sort()).toEqual(['n003000', 'n006000', 'n009000', 'n012000']);
  });

  test('callbacks that nobody claimed in 24 h are dropped, and no others', async () => {
    const kernel = await openKernel();
    await stale(kernel, ['old', 'new']);
    await createReaper(kernel.store).runOnce();
    await kernel.store.general.$executeRaw`
      update lease_reap set expired_at = expired_at - interval '25 hours' where name = 'old'`;

    await removeOldLeaseRows(kernel.store.general, 30, {
      clock: MACHINE_CLOCK,
      onFailure: (_kind, error) => {
        throw error;
      },
    });

    const rows = await kernel.store.general.$queryRaw<{ name: string }[]>`
      select name from lease_reap`;
    expect(rows).toEqual([{ name: 'new' }]);
  });
});
