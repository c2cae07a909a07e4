import { describe, expect, test } from 'vitest';
import { createTestDatabase } from '@leasehold/testing';
import {
  aCoordinator,
  acquired,
  aGate,
  aUseCase,
  makeNotes,
  note,
} from '../testing/coordinator-fixture.ts';
import { age, aRequest, eventsOf, openKernel } from '../testing/kernel-fixture.ts';
import { makeClockShiftable } from '../testing/shifted-clock.ts';

describe('heartbeat', () => {
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
});
