import { describe, expect, test, vi } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import type { Clock } from '../kernel/clock.ts';
import { MACHINE_CLOCK, TRUSTING_WATCH } from '../testing/kernel-fixture.ts';
import {
  aCaller,
  acquire,
  acquired,
  inLine,
  type Leases,
  lineOf,
  openLeases,
  released,
} from '../testing/lease-fixture.ts';

/** Less than the time between two checks of a line: nobody looks during such a wait. */
const SHORT_WAIT_MS = 1;
/** So many times slower runs a clock that was slowed down: a look that is late is still in time. */
const SLOWER_BY = 20;

/** The clock of this machine, until it is slowed down. */
class SlowingClock implements Clock {
  #slowSinceMs: number | undefined;

  slowDown(): void {
    this.#slowSinceMs = MACHINE_CLOCK.nowMs();
  }

  nowMs(): number {
    const machineMs = MACHINE_CLOCK.nowMs();
    const sinceMs = this.#slowSinceMs ?? machineMs;
    return sinceMs + (machineMs - sinceMs) / SLOWER_BY;
  }

  at(atMs: number, fn: () => void): () => void {
    return MACHINE_CLOCK.at(MACHINE_CLOCK.nowMs() + atMs - this.nowMs(), fn);
  }
}

/**
 * Two controllers. At the first one somebody waits who has fallen silent, so that nobody looks for its
 * line any more, and who was told of a holder that is gone by now.
 */
async function afterAnOldLook(): Promise<{
  one: Leases;
  two: Leases;
  clock: SlowingClock;
  looksCount: () => number;
}> {
  const clock = new SlowingClock();
  const one = await openLeases({ clock, clockWatch: TRUSTING_WATCH });
  const looks = vi.spyOn(one.leases, 'refusal');
  const two = await openLeases({ databaseUrl: one.databaseUrl });
  const former = await acquired(two, { holder: 'former' });
  const silent = aCaller();
  await inLine(one, 'silent', {}, silent);
  const told = await acquire(one, { holder: 'early', waitMs: 500 });
  expect(told).toMatchObject({ outcome: 'held', by: 'former' });
  silent.fallSilent();
  await waitUntil(async () => (await lineOf(one)).length === 0);
  await released(two, former);
  return { one, two, clock, looksCount: () => looks.mock.calls.length };
}

describe('a caller whose wait is over', () => {
  test('is told who holds the lease since its call, not who held it before', async () => {
    const { one, two } = await afterAnOldLook();
    await acquired(two, { holder: 'next' });

    const answer = await acquire(one, { holder: 'late', waitMs: SHORT_WAIT_MS });

    expect(answer).toMatchObject({ outcome: 'held', by: 'next' });
  });

  test('is granted a lease that is free by then, and not refused because of a former holder', async () => {
    const { one } = await afterAnOldLook();

    const answer = await acquire(one, { holder: 'late', waitMs: SHORT_WAIT_MS });

    expect(answer.outcome).toBe('granted');
  });

  test('costs no look of its own: many who give up together share one', async () => {
    const { one, two, clock, looksCount } = await afterAnOldLook();
    await acquired(two, { holder: 'next' });
    clock.slowDown();
    const before = looksCount();

    const answers = await Promise.all(
      Array.from({ length: 300 }, (_, index) =>
        acquire(one, { holder: `late-${String(index)}`, waitMs: SHORT_WAIT_MS }),
      ),
    );

    expect(answers.every((answer) => answer.outcome === 'held' && answer.by === 'next')).toBe(true);
    expect(looksCount() - before).toBe(1);
  });
});
