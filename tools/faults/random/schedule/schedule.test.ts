import { describe, expect, test } from 'vitest';
import { KINDS } from './kinds.ts';
import { planOf, type PlannedFault } from './plan.ts';
import { secondsFor, shrink } from './shrink.ts';

const SECONDS_90 = 90_000;

function isBeside(one: PlannedFault, other: PlannedFault): boolean {
  return one.atMs < other.atMs + other.forMs && other.atMs < one.atMs + one.forMs;
}

describe('the plan of a run', () => {
  test('is the same for the same seed, and another one for another', () => {
    const plan = planOf(KINDS, { seed: 7, runMs: SECONDS_90, isEachOnce: false });

    expect(planOf(KINDS, { seed: 7, runMs: SECONDS_90, isEachOnce: false })).toEqual(plan);
    expect(planOf(KINDS, { seed: 8, runMs: SECONDS_90, isEachOnce: false })).not.toEqual(plan);
  });

  test('lets faults meet, but never two of one target or of one group', () => {
    const plans = Array.from({ length: 50 }, (_, seed) =>
      planOf(KINDS, { seed, runMs: SECONDS_90, isEachOnce: seed % 2 === 0 }),
    );
    const pairs = plans.flatMap((plan) =>
      plan.flatMap((one, index) =>
        plan
          .slice(index + 1)
          .filter((other) => isBeside(one, other))
          .map((other) => [one, other] as const),
      ),
    );

    expect(pairs.length).toBeGreaterThan(plans.length);
    for (const [one, other] of pairs) {
      expect(one.target).not.toBe(other.target);
      for (const group of one.kind.groups ?? []) {
        expect(other.kind.groups ?? []).not.toContain(group);
      }
    }
  });

  test('has each kind once, where that is wanted, and leaves time to recover', () => {
    for (let seed = 0; seed < 50; seed += 1) {
      const plan = planOf(KINDS, { seed, runMs: SECONDS_90, isEachOnce: true });

      expect(new Set(plan.map(({ kind }) => kind)).size).toBe(KINDS.length);
      const endMs = Math.max(...plan.map(({ atMs, forMs }) => atMs + forMs));
      expect(endMs).toBeLessThan(SECONDS_90);
    }
  });
});

describe('shrinking a schedule that fails', () => {
  test('shortens the run, and the faults that are left happen as before', () => {
    for (let seed = 0; seed < 50; seed += 1) {
      const whole = planOf(KINDS, { seed, runMs: 2 * SECONDS_90, isEachOnce: false });
      const some = whole.filter((_fault, index) => index % 5 === 1 && index < 12);
      const ids = some.map(({ id }) => id);
      const seconds = secondsFor(ids, whole, { seconds: 180, isEachOnce: false });
      const short = planOf(KINDS, { seed, runMs: seconds * 1_000, isEachOnce: false });

      expect(seconds).toBeLessThan(180);
      expect(short).toEqual(expect.arrayContaining(some));
    }
  });

  const ids = Array.from({ length: 20 }, (_, index) => `f${String(index)}`);

  test('finds the two faults that must meet', async () => {
    const fails = (some: readonly string[]) =>
      Promise.resolve(some.includes('f3') && some.includes('f17'));

    expect(await shrink(ids.slice(0, 8).concat('f17'), fails)).toEqual(['f3', 'f17']);
  });

  test('ends after a bounded number of runs, with what has failed last', async () => {
    let count = 0;
    const fails = (some: readonly string[]) => {
      count += 1;
      return Promise.resolve(ids.slice(0, 19).every((id) => some.includes(id)));
    };

    expect((await shrink(ids, fails)).length).toBeGreaterThanOrEqual(19);
    expect(count).toBeLessThanOrEqual(16);
  });
});
