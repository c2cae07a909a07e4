import { describe, expect, test } from 'vitest';
import { checkedGraceMs } from './run-options.ts';

describe('checkedGraceMs', () => {
  test.each([
    [1_000, 166],
    [6_000, 1_000],
    [30_000, 5_000],
    [86_400_000, 5_000],
  ])('with a TTL of %i ms there are %i ms between SIGTERM and SIGKILL', (ttl, graceMs) => {
    expect(checkedGraceMs({ ttl, wait: 0 })).toBe(graceMs);
  });

  test.each([
    [{ ttl: 999, wait: 0 }, '--ttl'],
    [{ ttl: 86_400_001, wait: 0 }, '--ttl'],
    [{ ttl: 6_000, wait: 120_001 }, '--wait'],
    // Renewed from 2 s to 5 s: half of that is the most.
    [{ ttl: 6_000, wait: 0, grace: 1_501 }, '--grace'],
  ])('%j is wrong usage of %s', (options, option) => {
    expect(() => checkedGraceMs(options)).toThrow(
      expect.objectContaining({
        code: 'cli.usage',
        message: expect.stringContaining(option) as string,
      }) as Error,
    );
  });
});
