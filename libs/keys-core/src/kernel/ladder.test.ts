import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { seed } from '@leasehold/testing/chance';
import {
  deadlinesFrom,
  HEARTBEAT_MS,
  KEY_LADDERS,
  ladderProblems,
  serviceLadder,
  toleratedClockRatio,
} from './ladder.ts';

describe('ladder', () => {
  test('the presets satisfy every rule', () => {
    expect(ladderProblems(KEY_LADDERS.standard, HEARTBEAT_MS.standard)).toEqual([]);
    expect(ladderProblems(KEY_LADDERS.fast, HEARTBEAT_MS.fast)).toEqual([]);
  });

  test.each([
    [{ renewAfterMs: 0 }, 'renew must be a positive'],
    [{ renewAfterMs: 40_000 }, 'renew must be less than soft'],
    [{ softAfterMs: 49_501 }, 'soft must be at least 500 ms less than hard'],
    [{ hardAfterMs: 54_001 }, 'expire must be at least'],
    [{ ttlMs: 1.5 }, 'expire must be a positive whole number'],
    [{ renewAfterMs: 14_000 }, 'two heartbeat intervals'],
  ])('refuses %o', (change, problem) => {
    const ladder = { ...KEY_LADDERS.standard, ...change };

    expect(ladderProblems(ladder, HEARTBEAT_MS.standard).join('; ')).toContain(problem);
  });

  test('reports every problem at once', () => {
    const ladder = { renewAfterMs: 5, softAfterMs: 4, hardAfterMs: 3, ttlMs: 2 };

    expect(ladderProblems(ladder, 10).length).toBeGreaterThanOrEqual(4);
  });

  test('C22 soft comes before hard, on the first grant too', () => {
    const { renewAtMs, softTerminateAtMs, hardTerminateAtMs } = deadlinesFrom(
      KEY_LADDERS.standard,
      1_000,
      60_000,
    );

    expect([renewAtMs, softTerminateAtMs, hardTerminateAtMs]).toEqual([31_000, 41_000, 51_000]);
  });

  test('C48 the deadlines of a late answer are early, never past the expiry', () => {
    fc.assert(
      fc.property(
        fc.nat(1e9),
        fc.integer({ min: -60_000, max: 60_000 }),
        (localTimeMs, remainingMs) => {
          const deadlines = deadlinesFrom(KEY_LADDERS.standard, localTimeMs, remainingMs);

          expect(deadlines.hardTerminateAtMs).toBe(localTimeMs + remainingMs - 10_000);
          expect(deadlines.renewAtMs).toBeLessThan(deadlines.softTerminateAtMs);
          expect(deadlines.softTerminateAtMs).toBeLessThan(deadlines.hardTerminateAtMs);
        },
      ),
      { seed: seed() },
    );
  });

  test('the standard ladder tolerates clocks whose rates differ by more than a tenth', () => {
    expect(toleratedClockRatio(KEY_LADDERS.standard)).toBeGreaterThan(1.1);
  });

  test('a service renews after a third of its TTL, at most 30 s, and gives up some time before the expiry', () => {
    expect(serviceLadder(1_000)).toEqual({
      renewAfterMs: 333,
      softAfterMs: 750,
      hardAfterMs: 750,
      ttlMs: 1_000,
    });
    expect(serviceLadder(30_000)).toEqual({
      renewAfterMs: 10_000,
      softAfterMs: 25_000,
      hardAfterMs: 25_000,
      ttlMs: 30_000,
    });
    expect(serviceLadder(86_400_000).renewAfterMs).toBe(30_000);
  });
});
