/** What a coordinator tells its use cases of their deadlines, and what it knows of them itself. */
import { catchUncaught } from '@leasehold/testing';
import { describe, expect, test, vi } from 'vitest';
import { revoke } from '../grants/sql/revoke.ts';
import { invariant } from '../kernel/errors.ts';
import { aCoordinator, acquired, aUseCase } from '../testing/coordinator-fixture.ts';
import { type Kernel, openKernel } from '../testing/kernel-fixture.ts';

const revoked = (kernel: Kernel, leaseId: string, mode: 'graceful' | 'force') =>
  revoke(kernel.store.general, 'lease', [
    { leaseId, mode, abandon: false, actor: 'op', reason: 'r', namespaces: null },
  ]);

describe('a setDeadline that throws', () => {
  const thrown = new Error('mine');
  const throwing = (name: string) =>
    aUseCase(name, {
      setDeadline: () => {
        throw thrown;
      },
    });

  test('fails neither the grant nor the renewal that are committed, and is uncaught', async () => {
    const uncaught = catchUncaught();
    const coordinator = aCoordinator(await openKernel());
    const lease = throwing('a');

    const granted = await coordinator.acquire(lease, 0);
    const renewed = await coordinator.heartbeat(lease);
    const found = await coordinator.acquireOrRenew(lease);

    expect([granted, renewed, found]).toMatchObject([
      { outcome: 'granted' },
      { outcome: 'renewed' },
      { outcome: 'renewed' },
    ]);
    expect(uncaught).toEqual([thrown, thrown, thrown]);
  });

  test('keeps none of the leases that were acquired with it from being held', async () => {
    const uncaught = catchUncaught();
    const coordinator = aCoordinator(await openKernel());
    const other = aUseCase('b');
    const leases = [throwing('a'), other];

    const answer = await coordinator.acquireAll(leases, 0);

    invariant(answer.outcome === 'granted', 'both are free');
    expect(other.deadlines).toEqual([answer.leases[1]?.deadlines.loseAtMs]);
    expect(uncaught).toEqual([thrown]);
    const working = leases.map((lease) => coordinator.whileHeld(lease, () => Promise.resolve('x')));
    await expect(Promise.all(working)).resolves.toEqual(['x', 'x']);
  });

  test('is called when all that were acquired together are held', async () => {
    const coordinator = aCoordinator(await openKernel());
    const other = aUseCase('b');
    let released: Promise<unknown> | undefined;
    const first = aUseCase('a', {
      setDeadline: () => {
        released = coordinator.releaseOk(other, 'early');
      },
    });

    await coordinator.acquireAll([first, other], 0);

    await expect(released).resolves.toBe('released');
  });
});

describe('no work begins under a lease', () => {
  test('whose heartbeat was refused', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const lease = aUseCase('a');
    const { leaseId } = await acquired(coordinator, lease);
    await revoked(kernel, leaseId, 'force');
    await coordinator.heartbeat(lease);
    const work = vi.fn(() => Promise.resolve('done'));

    await expect(coordinator.whileHeld(lease, work)).rejects.toMatchObject({
      code: 'lease.not_held',
    });

    expect(work).not.toHaveBeenCalled();
  });

  test('that earlier work has lost', async () => {
    const coordinator = aCoordinator(await openKernel());
    const lease = aUseCase('a', {
      durationMs: () => 1_000,
      willHeartbeat: () => {
        throw new Error('no');
      },
    });
    await acquired(coordinator, lease);
    const lost = coordinator.whileHeld(lease, () => new Promise(() => undefined));
    await expect(lost).rejects.toMatchObject({ code: 'lease.lost' });
    const work = vi.fn(() => Promise.resolve('done'));

    await expect(coordinator.whileHeld(lease, work)).rejects.toMatchObject({
      code: 'lease.not_held',
    });

    expect(work).not.toHaveBeenCalled();
  });
});

test('work may still begin under a lease whose renewal is blocked, until its deadline', async () => {
  const kernel = await openKernel();
  const coordinator = aCoordinator(kernel);
  const lease = aUseCase('a');
  const { leaseId } = await acquired(coordinator, lease);
  await revoked(kernel, leaseId, 'graceful');
  expect(await coordinator.heartbeat(lease)).toMatchObject({ reason: 'renewal_blocked' });

  await expect(coordinator.whileHeld(lease, () => Promise.resolve('done'))).resolves.toBe('done');
});
