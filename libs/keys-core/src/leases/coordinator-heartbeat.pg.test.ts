import { describe, expect, test } from 'vitest';
import { createTestDatabase } from '@leasehold/testing';
import { revoke } from '../grants/sql/revoke.ts';
import type { CallbackSql } from '../postgres/open-store.ts';
import {
  aCoordinator,
  acquired,
  aGate,
  aUseCase,
  makeNotes,
  note,
} from '../testing/coordinator-fixture.ts';
import {
  age,
  aRequest,
  eventsOf,
  granted,
  MACHINE_CLOCK,
  openKernel,
} from '../testing/kernel-fixture.ts';
import { makeClockShiftable } from '../testing/shifted-clock.ts';

describe('heartbeat', () => {
  test.each([false, true])(
    'C12 C17 renews with the same token (with a hook: %s)',
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

    const [row] = await kernel.store.general.$queryRaw<{ isOld: boolean }[]>`
      select expires_at < clock_timestamp() + interval '31 seconds' as "isOld" from lease`;
    expect(row?.isOld).toBe(true);
    expect(lease.deadlines).toHaveLength(1);
  });

  test.each([false, true])(
    'C13 C14 C15 is refused with the reason when the lease has ended or is blocked (with a hook: %s)',
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
        revoke(kernel.store.general, 'lease', [
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

  test('I6 is rolled back when its hook outlasts the old expiry, so that a reader of "expired" was right', async () => {
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
    await age(kernel, grant.leaseId, 56_000);

    const renewing = coordinator.heartbeat(lease);
    renewing.catch(() => undefined);

    await expect(renewing).rejects.toMatchObject({ code: 'request.deadline' });
    expect(await coordinator.releaseOk(lease, 'x')).toBe('expired');
  });

  test('I6 is rolled back when the database’s clock passes the old expiry while its hook runs', async () => {
    const { url } = await createTestDatabase();
    const shift = await makeClockShiftable(url);
    const kernel = await openKernel({ databaseUrl: url });
    const coordinator = aCoordinator(kernel);
    const lease = aUseCase('a', { willHeartbeat: () => shift(61_000) });
    const grant = await acquired(coordinator, lease);

    const answer = await coordinator.heartbeat(lease);

    expect(answer).toEqual({ outcome: 'refused', reason: 'expired', leaseId: grant.leaseId });
    expect(lease.deadlines).toHaveLength(1);
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

  test('a failure is in the history with its message, and what willReleaseFail writes is committed with it', async () => {
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
      await kernel.store.general.$queryRaw`select reason from lease_event where kind = 'failed'`,
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
    'C20 C28 a release after loss reports it, writes nothing and leaves the new holder intact (hook: %s)',
    async (hasHook) => {
      const kernel = await openKernel();
      const notes = await makeNotes(kernel);
      const coordinator = aCoordinator(kernel);
      const hooks = hasHook ? { willReleaseOk: (tx: CallbackSql) => note(tx, 'x') } : {};
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
