import { expect, test } from 'vitest';
import type { Clock } from '../kernel/clock.ts';
import { aGate } from '../testing/coordinator-fixture.ts';
import type { CoordinatorHeartbeat } from './coordinator-types.ts';
import { workWhileHeld } from './while-held.ts';

/** A clock that a test advances. */
function aClock(): Clock & { advanceTo(ms: number): void } {
  let nowMs = 0;
  const timers = new Set<{ readonly atMs: number; readonly fn: () => void }>();
  return {
    nowMs: () => nowMs,
    at(atMs, fn) {
      const timer = { atMs, fn };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
    advanceTo(ms) {
      nowMs = ms;
      for (const timer of [...timers].filter(({ atMs }) => atMs <= ms)) {
        if (timers.delete(timer)) timer.fn();
      }
    },
  };
}

const renewed = (renewAtMs: number, loseAtMs: number): CoordinatorHeartbeat => ({
  outcome: 'renewed',
  leaseId: 'a',
  fencingToken: '1',
  deadlines: { renewAtMs, loseAtMs },
});

/** Lets everything run that waits only for promises. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('work that ends during a heartbeat waits for it: a release would meet its lock', async () => {
  const clock = aClock();
  const answered = aGate();
  const done = aGate();
  let isOver = false;
  const heartbeat = async (): Promise<CoordinatorHeartbeat> => {
    await answered.opened;
    return renewed(400, 800);
  };
  const deadlines = { renewAtMs: 100, loseAtMs: 500 };
  const working = workWhileHeld({ clock, deadlines, heartbeat }, async () => {
    await done.opened;
    return 'done';
  });
  void working.then(() => (isOver = true));

  clock.advanceTo(100);
  done.open();
  await settle();
  const wasOver = isOver;
  answered.open();

  expect(await working).toEqual({ outcome: 'done', result: 'done' });
  expect(wasOver).toBe(false);
});

test('I4 work that ends during a heartbeat that is never answered is lost at its deadline', async () => {
  const clock = aClock();
  const done = aGate();
  const heartbeat = (): Promise<never> => new Promise(() => undefined);
  const deadlines = { renewAtMs: 100, loseAtMs: 500 };
  const working = workWhileHeld({ clock, deadlines, heartbeat }, () => done.opened);

  clock.advanceTo(100);
  done.open();
  await settle();
  clock.advanceTo(500);

  expect(await working).toMatchObject({
    outcome: 'lost',
    error: { code: 'lease.lost', details: { reason: 'expired' } },
  });
});

test('work that fails during a heartbeat that is never answered counts as failed', async () => {
  const clock = aClock();
  const done = aGate();
  const failure = new Error('no');
  const heartbeat = (): Promise<never> => new Promise(() => undefined);
  const deadlines = { renewAtMs: 100, loseAtMs: 500 };
  const working = workWhileHeld({ clock, deadlines, heartbeat }, async () => {
    await done.opened;
    throw failure;
  });

  clock.advanceTo(100);
  done.open();
  await settle();
  clock.advanceTo(500);

  expect(await working).toEqual({ outcome: 'failed', failure });
});

test('work that rethrows the reason of its signal counts as lost, not as failed', async () => {
  const clock = aClock();
  const heartbeat = (): Promise<never> => new Promise(() => undefined);
  const deadlines = { renewAtMs: 100, loseAtMs: 500 };
  const working = workWhileHeld(
    { clock, deadlines, heartbeat },
    (signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          reject(signal.reason as Error);
        });
      }),
  );

  clock.advanceTo(500);

  expect(await working).toMatchObject({ outcome: 'lost', error: { code: 'lease.lost' } });
});

test('a heartbeat without an answer is sent again; each answer moves the deadline', async () => {
  const clock = aClock();
  const sentAtMs: number[] = [];
  const heartbeat = (): Promise<CoordinatorHeartbeat> => {
    sentAtMs.push(clock.nowMs());
    return sentAtMs.length === 1
      ? Promise.reject(new Error('no answer'))
      : Promise.resolve(renewed(clock.nowMs() + 400, clock.nowMs() + 800));
  };
  const done = aGate();
  const told: AbortSignal[] = [];
  const deadlines = { renewAtMs: 100, loseAtMs: 500 };
  const working = workWhileHeld({ clock, deadlines, heartbeat }, (signal) => {
    told.push(signal);
    return done.opened;
  });

  for (const atMs of [100, 350, 500, 750]) {
    clock.advanceTo(atMs);
    await settle();
  }
  done.open();

  expect(await working).toMatchObject({ outcome: 'done' });
  expect(sentAtMs).toEqual([100, 350, 750]);
  expect(told[0]?.aborted).toBe(false);
});
