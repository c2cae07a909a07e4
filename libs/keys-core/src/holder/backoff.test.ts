import { describe, expect, test } from 'vitest';
import { backoffMs } from './lease-keeper.ts';

describe('backoff', () => {
  const options = { firstMs: 50, maxMs: 400, random: () => 0 };

  test('doubles the wait with every failure, up to its bound', () => {
    const waits = [1, 2, 3, 4, 5, 1_000].map((count) => backoffMs(count, options));

    expect(waits).toEqual([50, 100, 200, 400, 400, 400]);
  });

  test('shortens a wait by at most half, so that callers that failed together retry at different times', () => {
    const shortest = backoffMs(3, { ...options, random: () => 0.999_999 });

    expect(shortest).toBeGreaterThan(100);
    expect(shortest).toBeLessThan(101);
  });
});
