import { describe, expect, test } from 'vitest';
import {
  aCoordinator,
  acquired,
  aGate,
  aUseCase,
  makeNotes,
} from '../testing/coordinator-fixture.ts';
import { aRequest, granted, openKernel } from '../testing/kernel-fixture.ts';
import { declarePermits, whileOverstayed } from '../testing/pool-fixture.ts';

describe('hooks', () => {
  test('may not call the coordinator; work that they left behind may call it afterwards', async () => {
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
          coordinator.whileHeld(lease, () => Promise.resolve('x')),
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

    expect(refusals).toEqual(Array.from({ length: 7 }, () => 'lease.in_hook'));
    expect(await later).toMatchObject({ outcome: 'granted' });
  });

  test('C51 on a lease that was never held before keep no other request waiting, even in the same batch', async () => {
    const kernel = await openKernel();
    const coordinator = aCoordinator(kernel);
    const goOn = aGate();
    const begun = aGate();
    const slow = coordinator.acquire(
      aUseCase('fresh', {
        willInsert: () => {
          begun.open();
          return goOn.opened;
        },
      }),
      0,
    );
    await begun.opened;
    const scope = aUseCase('fresh').scope();
    const stranger = { namespace: scope.namespace.join('.'), name: scope.key, holder: 'stranger' };

    const [refused, ...granted] = await Promise.all([
      kernel.leases.grant(aRequest(stranger)).catch((error: unknown) => error),
      ...Array.from({ length: 5 }, (_, nth) =>
        kernel.leases.grant(aRequest({ name: `neighbour-${String(nth)}` })),
      ),
    ]);
    goOn.open();

    expect(granted.map((answer) => answer.outcome)).toEqual(new Array(5).fill('granted'));
    // Its row is locked, not held: try again.
    expect(refused).toMatchObject({ code: 'grant.contended' });
    expect((await slow).outcome).toBe('granted');
  });

  test('on a permit of a total that was never taken before keep no other pool waiting', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 1, total: 2 });
    await declarePermits(kernel, { perKey: 1 }, 'other');
    const coordinator = aCoordinator(kernel);
    const goOn = aGate();
    const begun = aGate();
    const slow = coordinator.acquire(
      aUseCase('a', {
        willInsert: () => {
          begun.open();
          return goOn.opened;
        },
      }),
      0,
    );
    await begun.opened;

    const [refused, granted] = await Promise.all([
      kernel.leases.grant(aRequest({ name: 'b' })).catch((error: unknown) => error),
      kernel.leases.grant(aRequest({ namespace: 'other' })),
    ]);
    goOn.open();

    // The namespace's row is locked, not held: try again.
    expect(refused).toMatchObject({ code: 'grant.contended' });
    expect(granted.outcome).toBe('granted');
    expect((await slow).outcome).toBe('granted');
  });

  test('on a permit that has run out, and whose last holder keeps its row locked, learn that it is held', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 1 });
    const old = await granted(kernel, { mode: 'permit', name: 'a' });

    const answer = await whileOverstayed(kernel, old, () =>
      aCoordinator(kernel).acquire(aUseCase('a', { willInsert: () => undefined }), 0),
    );

    expect(answer).toMatchObject({ outcome: 'held', by: 'alice' });
  });

  test('that are slow keep neither grants nor renewals of others waiting', async () => {
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
