import { describe, expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import {
  acquired,
  aCoordinator,
  aGate,
  aUseCase,
  makeNotes,
  note,
} from '../../testing/coordinator-fixture.ts';
import {
  MACHINE_CLOCK,
  age,
  aRequest,
  eventsOf,
  granted,
  openKernel,
} from '../../testing/kernel-fixture.ts';
import type { GuestSql } from '../../store/guest-transaction.ts';
import { revoke } from '../../store/statements/revoke.ts';

/** Fails a statement as a deadlock would. */
async function loseOnce(tx: GuestSql, tries: { count: number }, timesMax = 1): Promise<void> {
  tries.count += 1;
  if (tries.count <= timesMax) {
    await tx.$executeRaw`do $$ begin raise exception 'lost' using errcode = '40P01'; end $$`;
  }
}

describe('acquire', () => {
  test('C1 C48 grants, and tells a deadline in its own clock that lies a grace before the expiry', async () => {
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

  test('C2 C30 refuses what another holds, says who and since when, and calls no hook', async () => {
    const kernel = await openKernel();
    const other = await granted(kernel, { holder: 'bob', comment: 'why' });
    const calls: string[] = [];
    const lease = aUseCase('thing', { willInsert: () => calls.push('insert') });

    const answer = await aCoordinator(kernel).acquire(lease, 0);

    expect(answer).toMatchObject({
      outcome: 'held',
      by: 'bob',
      since: new Date(other.grantedAt).toISOString(),
      comment: 'why',
    });
    expect(calls).toEqual([]);
    expect(lease.deadlines).toEqual([]);
  });

  test('what willInsert writes is committed with the grant, and knows its id, token and deadline', async () => {
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

  test('a willInsert that throws rolls the grant back, and its error is the caller’s', async () => {
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

  test('a transaction that lost against another one is tried again, and its hook with it', async () => {
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

  test('one that loses every time is given up as contended, and nothing is granted', async () => {
    const kernel = await openKernel();
    const tries = { count: 0 };
    const lease = aUseCase('a', { willInsert: (tx) => loseOnce(tx, tries, Infinity) });

    await expect(aCoordinator(kernel).acquire(lease, 0)).rejects.toMatchObject({
      code: 'grant.contended',
    });

    expect(tries.count).toBe(4);
    expect(await eventsOf(kernel, 'a')).toEqual([]);
  });

  test('a hook that takes longer than its lease lasts is rolled back', async () => {
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

  test('F18 asked again with the same key after a lost answer it finds the grant it was given', async () => {
    const kernel = await openKernel();
    const first = aUseCase('a', { willInsert: () => undefined });
    const grant = await acquired(aCoordinator(kernel), first);
    const again = aUseCase('a', { key: first.key, willInsert: () => undefined });

    const answer = await acquired(aCoordinator(kernel), again);

    expect(answer).toMatchObject({ leaseId: grant.leaseId, fencingToken: grant.fencingToken });
    expect(again.deadlines[0]).toBeGreaterThan(0);
    expect(await eventsOf(kernel, 'a')).toHaveLength(1);
  });

  test('C10 refuses a key that is no UUID, a bad scope, a bad duration and a bad wait', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const scoped = (namespace: string[], key = 'k') => ({ scope: () => ({ namespace, key }) });

    const bad = [
      aUseCase('a', { key: () => 'mine' }),
      aUseCase('a', scoped(['a.b'])),
      aUseCase('a', scoped([''])),
      aUseCase('a', scoped(['a'], '')),
    ];

    for (const lease of bad) {
      await expect(coordinator.acquire(lease, 0)).rejects.toMatchObject({
        code: 'request.invalid',
      });
    }
    await expect(coordinator.acquire(aUseCase('a'), -1)).rejects.toMatchObject({
      code: 'request.invalid',
    });
    const short = aUseCase('a', { durationMs: () => 999 });
    await expect(coordinator.acquire(short, 0)).rejects.toMatchObject({
      code: 'lease.ttl_out_of_range',
    });
  });

  test('one use case object obtains one lease', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const lease = aUseCase('a');
    await acquired(coordinator, lease);
    await coordinator.releaseOk(lease, 'x');

    await expect(coordinator.acquire(lease, 0)).rejects.toMatchObject({ code: 'request.invalid' });
  });
});

describe('acquire with a wait', () => {
  test.each([false, true])('is granted after a release (with a hook: %s)', async (hasHook) => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const [alice, bob] = [aCoordinator(kernel, 'alice'), aCoordinator(kernel, 'bob')];
    const first = aUseCase('a');
    await acquired(alice, first);
    const second = aUseCase('a', hasHook ? { willInsert: (tx) => note(tx, 'bob') } : {});

    const waiting = bob.acquire(second, 20_000);
    await someoneInLine(kernel);
    await alice.releaseOk(first, 'x');
    const answer = await waiting;

    expect(answer).toMatchObject({ outcome: 'granted', leaseId: second.key() });
    expect(await notes()).toEqual(hasHook ? ['bob'] : []);
    expect(second.deadlines[0]).toBeGreaterThan(MACHINE_CLOCK.nowMs() + 45_000);
    expect(await linePlaces(kernel)).toBe(0);
  });

  test('is granted after a release that had a hook', async () => {
    const kernel = await openKernel();
    const [alice, bob] = [aCoordinator(kernel, 'alice'), aCoordinator(kernel, 'bob')];
    const first = aUseCase('a', { willReleaseOk: () => undefined });
    await acquired(alice, first);

    const waiting = bob.acquire(aUseCase('a'), 20_000);
    await someoneInLine(kernel);
    await alice.releaseOk(first, 'x');

    expect(await waiting).toMatchObject({ outcome: 'granted' });
  });

  test('gives up after its time, and says who has it', async () => {
    const kernel = await openKernel();
    await granted(kernel, { name: 'a', holder: 'bob' });

    const answer = await aCoordinator(kernel).acquire(aUseCase('a'), 150);

    expect(answer).toMatchObject({ outcome: 'held', by: 'bob' });
    expect(await linePlacesInForce(kernel)).toBe(0);
  });

  test('a hook that throws in its turn ends the wait with its error, and nothing is granted', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const first = aUseCase('a');
    await acquired(coordinator, first);
    const thrown = new TypeError('mine');
    const second = aUseCase('a', {
      willInsert: () => {
        throw thrown;
      },
    });

    const waiting = aCoordinator(kernel, 'bob').acquire(second, 20_000);
    waiting.catch(() => undefined);
    await someoneInLine(kernel);
    await coordinator.releaseOk(first, 'x');

    await expect(waiting).rejects.toBe(thrown);
    expect((await eventsOf(kernel, 'a')).map((line) => line.split(' ')[0])).toEqual([
      'granted',
      'released',
    ]);
  });

  test('I9 one that is cancelled is never granted, and its hook’s work is not kept', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const coordinator = aCoordinator(kernel);
    const first = aUseCase('a');
    await acquired(coordinator, first);
    const cancel = new AbortController();
    const inHook = aGate();
    const goOn = aGate();
    const second = aUseCase('a', {
      async willInsert(tx) {
        await note(tx, 'bob');
        inHook.open();
        await goOn.opened;
      },
    });

    const waiting = aCoordinator(kernel, 'bob').acquire(second, 20_000, { signal: cancel.signal });
    waiting.catch(() => undefined);
    await someoneInLine(kernel);
    await coordinator.releaseOk(first, 'x');
    await inHook.opened;
    cancel.abort(new Error('enough'));
    await expect(waiting).rejects.toMatchObject({ code: 'lease.wait_cancelled' });
    goOn.open();

    const next = await waitUntil(async () => {
      const answer = await coordinator.acquire(aUseCase('a'), 0);
      return answer.outcome === 'granted' ? answer : undefined;
    });
    expect(next.outcome).toBe('granted');
    expect(await notes()).toEqual([]);
    expect(second.deadlines).toEqual([]);
  });

  test('one that was cancelled before it asked asks nothing', async () => {
    const kernel = await openKernel();

    const waiting = aCoordinator(kernel).acquire(aUseCase('a'), 10, {
      signal: AbortSignal.abort(),
    });

    await expect(waiting).rejects.toMatchObject({ code: 'lease.wait_cancelled' });
    expect(await eventsOf(kernel, 'a')).toEqual([]);
  });
});

describe('heartbeat', () => {
  test.each([false, true])(
    'C12 C17 renews, its token unchanged (with a hook: %s)',
    async (hasHook) => {
      const kernel = await openKernel();
      const notes = await makeNotes(kernel);
      const coordinator = aCoordinator(kernel);
      const lease = aUseCase(
        'a',
        hasHook
          ? { willHeartbeat: (tx, at, grant) => note(tx, `${grant.fencingToken} ${String(at)}`) }
          : {},
      );
      const grant = await acquired(coordinator, lease);
      await age(kernel, grant.leaseId, 30_000);

      const answer = await coordinator.heartbeat(lease);

      expect(answer).toMatchObject({ outcome: 'renewed', fencingToken: grant.fencingToken });
      const at = lease.deadlines[1] ?? 0;
      expect(at).toBeGreaterThan(MACHINE_CLOCK.nowMs() + 49_000 - 5_000);
      expect(await notes()).toEqual(hasHook ? [`${grant.fencingToken} ${String(at)}`] : []);
    },
  );

  test('a willHeartbeat that throws leaves the lease as it was', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const thrown = new TypeError('mine');
    const lease = aUseCase('a', {
      willHeartbeat: () => {
        throw thrown;
      },
    });
    const grant = await acquired(coordinator, lease);
    await age(kernel, grant.leaseId, 30_000);

    await expect(coordinator.heartbeat(lease)).rejects.toBe(thrown);

    const [row] = await kernel.store.prisma.$queryRaw<{ isOld: boolean }[]>`
      select expires_at < clock_timestamp() + interval '31 seconds' as "isOld" from lease`;
    expect(row?.isOld).toBe(true);
    expect(lease.deadlines).toHaveLength(1);
  });

  test.each([false, true])(
    'C13 C14 C15 is refused with the reason when it is over or blocked (with a hook: %s)',
    async (hasHook) => {
      const kernel = await openKernel();
      const coordinator = aCoordinator(kernel);
      const calls: string[] = [];
      const hooks = hasHook ? { willHeartbeat: () => calls.push('heartbeat') } : {};
      const names = ['expired', 'released', 'superseded', 'blocked', 'revoked'] as const;
      const leases = names.map((name) => aUseCase(name, hooks));
      const grants = await Promise.all(leases.map((lease) => acquired(coordinator, lease)));
      const idOf = (name: (typeof names)[number]): string =>
        grants[names.indexOf(name)]?.leaseId ?? '';
      await age(kernel, idOf('expired'), 60_000);
      await coordinator.releaseOk(leases[1] ?? aUseCase(''), 'x');
      await age(kernel, idOf('superseded'), 60_000);
      await granted(kernel, { name: 'superseded', holder: 'bob' });
      const revokeOf = (leaseId: string, mode: 'graceful' | 'force') =>
        revoke(kernel.store.prisma, 'lease', [
          { leaseId, mode, abandon: false, actor: 'op', reason: 'r', namespaces: null },
        ]);
      await revokeOf(idOf('blocked'), 'graceful');
      await revokeOf(idOf('revoked'), 'force');

      const answers = [];
      for (const lease of leases) answers.push(await coordinator.heartbeat(lease));

      expect(answers).toEqual(
        ['expired', 'released', 'expired', 'renewal_blocked', 'revoked'].map((reason, index) => ({
          outcome: 'refused',
          reason,
          leaseId: grants[index]?.leaseId,
        })),
      );
      expect(calls).toEqual([]);
    },
  );

  test('I6 a renewal whose hook outlasts the old expiry is rolled back: who read "expired" was right', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const inHook = aGate();
    const lease = aUseCase('a', {
      async willHeartbeat(tx) {
        inHook.open();
        await tx.$queryRaw`select pg_sleep(60)::text`;
      },
    });
    const grant = await acquired(coordinator, lease);
    await age(kernel, grant.leaseId, 59_500);

    const renewing = coordinator.heartbeat(lease);
    renewing.catch(() => undefined);

    await expect(renewing).rejects.toMatchObject({ code: 'request.deadline' });
    expect(await coordinator.releaseOk(lease, 'x')).toBe('expired');
  });

  test('of a lease that this coordinator has not acquired is an error', async () => {
    const kernel = await openKernel();

    await expect(aCoordinator(kernel).heartbeat(aUseCase('a'))).rejects.toMatchObject({
      code: 'lease.not_held',
    });
  });
});

describe('releaseOk and releaseFail', () => {
  test('C26 what willReleaseOk writes is committed with the release, once', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const coordinator = aCoordinator(kernel);
    const lease = aUseCase('a', { willReleaseOk: (tx, success) => note(tx, success) });
    await acquired(coordinator, lease);

    const answers = [
      await coordinator.releaseOk(lease, 'done'),
      await coordinator.releaseOk(lease, 'done'),
    ];

    expect(answers).toEqual(['released', 'already_released']);
    expect(await notes()).toEqual(['done']);
    expect((await eventsOf(kernel, 'a')).at(-1)).toMatch(/^released /u);
  });

  test('a failure is in the history with its message, and what willReleaseFail writes with it', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const coordinator = aCoordinator(kernel);
    const lease = aUseCase('a', {
      willReleaseFail: (tx, failure) => note(tx, (failure as Error).message.replace('\0', '')),
    });
    await acquired(coordinator, lease);

    const answer = await coordinator.releaseFail(lease, new Error('no\0 luck'));

    expect(answer).toBe('released');
    expect(
      await kernel.store.prisma.$queryRaw`select reason from lease_event where kind = 'failed'`,
    ).toEqual([{ reason: 'no luck' }]);
    expect(await notes()).toEqual(['no luck']);
  });

  test('a hook that throws leaves the lease held', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const thrown = new TypeError('mine');
    let isThrowing = true;
    const lease = aUseCase('a', {
      willReleaseOk: () => {
        if (isThrowing) throw thrown;
      },
    });
    await acquired(coordinator, lease);

    await expect(coordinator.releaseOk(lease, 'x')).rejects.toBe(thrown);
    const refused = await kernel.leases.grant(aRequest({ name: 'a' }));
    isThrowing = false;

    expect(refused.outcome).toBe('held');
    expect(await coordinator.releaseOk(lease, 'x')).toBe('released');
  });

  test.each([false, true])(
    'C20 C28 a release after loss says so, writes nothing and leaves the new holder intact (hook: %s)',
    async (hasHook) => {
      const kernel = await openKernel();
      const notes = await makeNotes(kernel);
      const coordinator = aCoordinator(kernel);
      const hooks = hasHook ? { willReleaseOk: (tx: GuestSql) => note(tx, 'x') } : {};
      const expired = aUseCase('expired', hooks);
      const superseded = aUseCase('superseded', hooks);
      for (const lease of [expired, superseded]) {
        await age(kernel, (await acquired(coordinator, lease)).leaseId, 60_000);
      }
      const next = await granted(kernel, { name: 'superseded', holder: 'bob' });

      const answers = [
        await coordinator.releaseOk(expired, 'x'),
        await coordinator.releaseOk(superseded, 'x'),
      ];

      expect(answers).toEqual(['expired', 'expired']);
      expect(await notes()).toEqual([]);
      expect(await kernel.leases.grant(aRequest({ name: 'superseded' }))).toMatchObject({
        outcome: 'held',
        by: { leaseId: next.leaseId },
      });
    },
  );
});

describe('hooks', () => {
  test('may not call the coordinator; afterwards what they have left behind may', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const refusals: unknown[] = [];
    let later: Promise<unknown> = Promise.resolve();
    const settled = aGate();
    const lease = aUseCase('a', {
      async willInsert() {
        const calls = [
          coordinator.acquire(aUseCase('b'), 0),
          coordinator.heartbeat(lease),
          coordinator.releaseOk(lease, 'x'),
          coordinator.releaseFail(lease, 'x'),
          coordinator.acquireOrRenew(aUseCase('c')),
          coordinator.reapStaleLeases([], true, () => undefined),
        ];
        for (const one of await Promise.allSettled(calls)) {
          refusals.push(one.status === 'rejected' ? (one.reason as { code: string }).code : one);
        }
        later = settled.opened.then(() => coordinator.acquire(aUseCase('d'), 0));
      },
    });

    await acquired(coordinator, lease);
    settled.open();

    expect(refusals).toEqual(Array.from({ length: 6 }, () => 'lease.in_hook'));
    expect(await later).toMatchObject({ outcome: 'granted' });
  });

  test('hooks that are slow keep neither grants nor renewals of others waiting', async () => {
    const kernel = await openKernel();
    await makeNotes(kernel);
    const coordinator = aCoordinator(kernel);
    const goOn = aGate();
    const slow = Array.from({ length: 12 }, (_, index) =>
      coordinator.acquire(aUseCase(`slow${String(index)}`, { willInsert: () => goOn.opened }), 0),
    );
    const lease = aUseCase('quick');

    const grant = await acquired(coordinator, lease);
    const renewed = await coordinator.heartbeat(lease);
    goOn.open();

    expect(grant.leaseId).toBe(lease.key());
    expect(renewed.outcome).toBe('renewed');
    expect((await Promise.all(slow)).every((answer) => answer.outcome === 'granted')).toBe(true);
  });
});

describe('acquireOrRenew', () => {
  test('grants what is free, renews it under the same token, and refuses another holder', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const [alice, bob] = [aCoordinator(kernel, 'alice'), aCoordinator(kernel, 'bob')];
    const lease = aUseCase('leader', {
      willInsert: (tx) => note(tx, 'insert'),
      willHeartbeat: (tx) => note(tx, 'heartbeat'),
    });

    const first = await alice.acquireOrRenew(lease);
    const second = await alice.acquireOrRenew(lease);
    const third = await bob.acquireOrRenew(aUseCase('leader'));

    expect(first).toMatchObject({ outcome: 'granted', leaseId: lease.key() });
    expect(second).toMatchObject({
      outcome: 'renewed',
      leaseId: lease.key(),
      fencingToken: first.outcome === 'granted' ? first.fencingToken : '',
    });
    expect(third).toMatchObject({ outcome: 'held', by: 'alice' });
    expect(await notes()).toEqual(['insert', 'heartbeat']);
    expect(lease.deadlines).toHaveLength(2);
  });

  test('a restarted process finds its lease by its name, and renews and releases it', async () => {
    const kernel = await openKernel();
    const first = await aCoordinator(kernel).acquireOrRenew(aUseCase('leader'));
    const restarted = aCoordinator(kernel);
    const lease = aUseCase('leader');

    const second = await restarted.acquireOrRenew(lease);

    expect(second).toMatchObject({
      ...first,
      outcome: 'renewed',
      deadlines: expect.anything() as unknown,
    });
    expect(await restarted.heartbeat(lease)).toMatchObject({ outcome: 'renewed' });
    expect(await restarted.releaseOk(lease, 'x')).toBe('released');
  });

  test('an expired one, its own too, is taken over with a new id and a larger token', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const lease = aUseCase('leader');
    const ids: string[] = [];
    for (let round = 0; round < 3; round += 1) {
      const answer = await coordinator.acquireOrRenew(lease);
      ids.push(answer.outcome === 'granted' ? answer.leaseId : answer.outcome);
      await age(kernel, ids.at(-1) ?? '', 60_000);
    }

    const kinds = (await eventsOf(kernel, 'leader')).map((line) => line.split(' ')[0]);
    const reaps = await kernel.store.prisma.$queryRaw<unknown[]>`select from lease_reap`;
    expect(new Set(ids).size).toBe(3);
    expect(ids[0]).toBe(lease.key());
    expect(kinds).toEqual(['granted', 'expired', 'taken_over', 'expired', 'taken_over']);
    expect(reaps).toHaveLength(2);
  });

  test('C9 of 32 who ask at once one leads, and all others are told who', async () => {
    const kernel = await openKernel();
    const other = await openKernel({ databaseUrl: kernel.databaseUrl });

    const answers = await Promise.all(
      Array.from({ length: 32 }, (_, index) =>
        aCoordinator(index % 2 === 0 ? kernel : other, `h${String(index)}`).acquireOrRenew(
          aUseCase('leader'),
        ),
      ),
    );

    const leaders = answers.filter((answer) => answer.outcome === 'granted');
    const told = new Set(answers.flatMap((answer) => (answer.outcome === 'held' ? answer.by : [])));
    expect(leaders).toHaveLength(1);
    expect(told.size).toBe(1);
    expect(await eventsOf(kernel, 'leader')).toHaveLength(1);
  });

  test('passes nobody who stands in line, and renews beside them', async () => {
    const kernel = await openKernel();
    const [alice, bob] = [aCoordinator(kernel, 'alice'), aCoordinator(kernel, 'bob')];
    const lease = aUseCase('leader');
    await alice.acquireOrRenew(lease);
    const cancel = new AbortController();
    const waiting = bob.acquire(aUseCase('leader'), 20_000, { signal: cancel.signal });
    await someoneInLine(kernel);

    const renewed = await alice.acquireOrRenew(lease);
    await alice.releaseOk(lease, 'x');
    const after = await alice.acquireOrRenew(aUseCase('leader'));

    expect(renewed.outcome).toBe('renewed');
    expect(after.outcome).toBe('held');
    expect(await waiting).toMatchObject({ outcome: 'granted' });
  });

  test('a blocked one is not renewed, and not called another’s', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const answer = await coordinator.acquireOrRenew(aUseCase('leader'));
    await kernel.store.prisma.$executeRaw`update lease set renewable = false`;

    expect(answer.outcome).toBe('granted');
    expect(await coordinator.acquireOrRenew(aUseCase('leader'))).toMatchObject({
      outcome: 'held',
      by: 'alice',
    });
  });

  test('it does not find the lease of another principal under its name', async () => {
    const kernel = await openKernel();
    await granted(kernel, { name: 'leader', holder: 'alice', principal: 'token-b' });

    const answer = await aCoordinator(kernel).acquireOrRenew(aUseCase('leader'));

    expect(answer).toMatchObject({ outcome: 'held', by: 'alice' });
  });

  test('its own row, locked for a moment, is not called held: it is renewed, or asked for again', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const lease = aUseCase('leader');
    await coordinator.acquireOrRenew(lease);
    const goOn = aGate();
    const locked = aGate();
    const locking = kernel.store.guests.$transaction(async (tx) => {
      await tx.$queryRaw`select lease_id::text from lease for share`;
      locked.open();
      await goOn.opened;
    });
    await locked.opened;

    const answer = coordinator.acquireOrRenew(lease);
    await expect(answer).rejects.toMatchObject({ code: 'grant.contended' });
    goOn.open();
    await locking;

    expect(await coordinator.acquireOrRenew(lease)).toMatchObject({ outcome: 'renewed' });
  });

  test('grants nothing while a restored database holds off, and goes on renewing', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const lease = aUseCase('leader');
    await coordinator.acquireOrRenew(lease);
    await kernel.store.prisma.$executeRaw`
      insert into database_epoch (only_row, epoch, system_identifier, timeline, token, longest_ttl_ms, hold_off_until)
      values (true, 2, 'x', 1, gen_random_uuid(), 60000, clock_timestamp() + interval '50 seconds')`;

    expect(await coordinator.acquireOrRenew(lease)).toMatchObject({ outcome: 'renewed' });
    await expect(coordinator.acquireOrRenew(aUseCase('other'))).rejects.toMatchObject({
      code: 'grant.hold_off',
    });
  });
});

type K = Awaited<ReturnType<typeof openKernel>>;

async function linePlaces(kernel: K): Promise<number> {
  const rows = await kernel.store.prisma.$queryRaw<unknown[]>`select id::text from lease_waiter`;
  return rows.length;
}

async function linePlacesInForce(kernel: K): Promise<number> {
  const rows = await kernel.store.prisma.$queryRaw<unknown[]>`
    select id::text from lease_waiter where valid_until > clock_timestamp()`;
  return rows.length;
}

/** Resolves when a ticket is there. */
async function someoneInLine(kernel: K): Promise<void> {
  await waitUntil(async () => (await linePlaces(kernel)) > 0);
}
