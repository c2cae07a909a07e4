import { invariant } from '../kernel/errors.ts';
import { waitUntil } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import { aCoordinator, aUseCase, makeNotes, note } from '../testing/coordinator-fixture.ts';
import { granted, openKernel } from '../testing/kernel-fixture.ts';
import { lineOf } from '../testing/lease-fixture.ts';
import { declarePermits, whileOverstayed } from '../testing/pool-fixture.ts';
import type { CoordinatorAcquireAll } from './coordinator-types.ts';

/** The ids and tokens that were granted. */
function leasesOf(answer: CoordinatorAcquireAll): unknown {
  return answer.outcome === 'granted'
    ? answer.leases.map(({ leaseId, fencingToken }) => [leaseId, fencingToken])
    : answer;
}

describe('several leases of a coordinator', () => {
  test('are granted together, and what their hooks write is committed with them', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const coordinator = aCoordinator(kernel);
    const leases = ['b', 'a'].map((name) =>
      aUseCase(name, { willInsert: (tx, _at, { leaseId }) => note(tx, `${name} ${leaseId}`) }),
    );

    const answer = await coordinator.acquireAll(leases, 0);

    invariant(answer.outcome === 'granted', 'both are free');
    const ids = leases.map((lease) => lease.key());
    expect(answer.leases.map(({ leaseId }) => leaseId)).toEqual(ids);
    expect(await notes()).toEqual([`b ${String(ids[0])}`, `a ${String(ids[1])}`]);
    expect(leases.map(({ deadlines }) => deadlines.length)).toEqual([1, 1]);
    await expect(
      Promise.all(leases.map((lease) => coordinator.releaseOk(lease, 'done'))),
    ).resolves.toEqual(['released', 'released']);
  });

  test('are all given up when one of their hooks throws, whose error the caller gets', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const coordinator = aCoordinator(kernel);
    const thrown = new TypeError('mine');
    const first = aUseCase('a', { willInsert: (tx) => note(tx, 'a') });
    const failing = aUseCase('b', { willInsert: () => Promise.reject(thrown) });

    await expect(coordinator.acquireAll([first, failing], 0)).rejects.toBe(thrown);

    expect(await notes()).toEqual([]);
    await expect(coordinator.acquire(aUseCase('a'), 0)).resolves.toMatchObject({
      outcome: 'granted',
    });
  });

  test.each([
    ['with hooks', { willInsert: () => undefined }],
    ['without hooks', {}],
  ])('%s are waited for, and a refusal names the one that is held', async (_how, hooks) => {
    const kernel = await openKernel();
    const [alice, bob] = [aCoordinator(kernel), aCoordinator(kernel, 'bob')];
    const held = aUseCase('b');
    await bob.acquire(held, 0);
    const wanted = () => ['a', 'b'].map((name) => aUseCase(name, hooks));

    const refused = await alice.acquireAll(wanted(), 0);
    const waiting = alice.acquireAll(wanted(), 60_000);
    await waitUntil(async () => (await lineOf(kernel, 'b')).length > 0);
    await bob.releaseOk(held, 'done');

    expect(refused).toMatchObject({ outcome: 'held', key: 'b', by: 'bob' });
    await expect(waiting).resolves.toMatchObject({ outcome: 'granted' });
  });

  test('with hooks learn that one is held whose last holder let it run out, and keeps its row locked', async () => {
    const kernel = await openKernel();
    await declarePermits(kernel, { perKey: 1 });
    const old = await granted(kernel, { mode: 'permit', name: 'a' });
    const leases = ['b', 'a'].map((name) => aUseCase(name, { willInsert: () => undefined }));

    const answer = await whileOverstayed(kernel, old, () =>
      aCoordinator(kernel, 'bob').acquireAll(leases, 0),
    );

    expect(answer).toMatchObject({ outcome: 'held', key: 'a', by: 'alice' });
  });

  test('a lease that is in the list twice is refused, with its place', async () => {
    const coordinator = aCoordinator(await openKernel());

    await expect(coordinator.acquireAll([aUseCase('a'), aUseCase('a')], 0)).rejects.toMatchObject({
      code: 'request.invalid',
      details: { field: 'leases[1]' },
    });
  });

  test.each([
    ['with hooks', { willInsert: () => undefined }],
    ['without hooks', {}],
  ])(
    '%s are shared, taken by permits beside one that is held alone, and found again by their keys',
    async (_how, hooks) => {
      const kernel = await openKernel();
      const permitted = () =>
        aUseCase('p', { ...hooks, scope: () => ({ namespace: ['exports'], key: 'p' }) });
      await declarePermits(kernel, { perKey: 1 }, 'exports');
      const wanted = () => [
        aUseCase('a', hooks),
        aUseCase('b', { ...hooks, mode: () => 'shared' }),
        permitted(),
      ];
      const [alice, bob] = [aCoordinator(kernel), aCoordinator(kernel, 'bob')];

      const leases = wanted();
      const first = await alice.acquireAll(leases, 0);
      const sharing = await bob.acquireAll([aUseCase('b', { mode: () => 'shared' })], 0);
      const full = await bob.acquireAll([permitted()], 0);
      // Without the answer.
      const again = await aCoordinator(kernel).acquireAll(leases, 0);

      expect([first.outcome, sharing.outcome, full.outcome]).toEqual([
        'granted',
        'granted',
        'held',
      ]);
      expect(leasesOf(again)).toEqual(leasesOf(first));
    },
  );
});
