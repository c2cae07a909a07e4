import { describe, expect, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import {
  aCoordinator,
  acquired,
  aGate,
  aUseCase,
  makeNotes,
  note,
  someoneInLine,
} from '../testing/coordinator-fixture.ts';
import { eventsOf, openKernel } from '../testing/kernel-fixture.ts';

describe('acquire with a wait', () => {
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

  test('ends with the error of a hook that throws at its turn, and nothing is granted', async () => {
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

  test('I9 that is cancelled is never granted, and the work of its hook is not kept', async () => {
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
});
