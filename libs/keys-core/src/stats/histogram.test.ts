import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { seed } from '@leasehold/testing/chance';
import { DURATION_PLACES, mergedCounts, percentileMs, placeOfDuration } from './histogram.ts';

function histogramOf(durationsMs: readonly number[]): number[] {
  const counts = new Array<number>(DURATION_PLACES).fill(0);
  for (const ms of durationsMs) {
    const place = placeOfDuration(ms);
    counts[place] = (counts[place] ?? 0) + 1;
  }
  return counts;
}

describe('histogram of durations', () => {
  test('an empty one has no percentiles', () => {
    expect(percentileMs(histogramOf([]), 0.5)).toBeNull();
  });

  test('a percentile lies between the bounds of the place that counted it', () => {
    const counts = histogramOf([400, 400, 400, 400]);

    expect(percentileMs(counts, 0.5)).toBe(400);
    expect(percentileMs(counts, 1)).toBe(500);
    expect(percentileMs(histogramOf([500]), 0.99)).toBeGreaterThan(300);
  });

  test('a duration above the last bound is reported as that bound, and not left out', () => {
    expect(percentileMs(histogramOf([10_000_000]), 0.5)).toBe(120_000);
    expect(percentileMs(histogramOf([0, 0, 10_000_000]), 0.99)).toBe(120_000);
  });

  test('a percentile is within a factor of 1.7 of the true one', () => {
    const durations = fc.array(fc.integer({ min: 2, max: 100_000 }), {
      minLength: 1,
      maxLength: 60,
    });
    fc.assert(
      fc.property(durations, fc.constantFrom(0.5, 0.9, 0.99, 1), (sample, share) => {
        const sorted = [...sample].sort((a, b) => a - b);
        const truth = sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
        const told = percentileMs(histogramOf(sample), share) ?? Number.NaN;
        expect(told / truth).toBeLessThan(1.7);
        expect(truth / told).toBeLessThan(1.7);
      }),
      { seed: seed() },
    );
  });

  test('merging adds up all counts, also those of an older histogram with fewer places', () => {
    const merged = mergedCounts([histogramOf([1, 400]), histogramOf([400]), [2]]);

    expect(merged).toHaveLength(DURATION_PLACES);
    expect(merged[placeOfDuration(400)]).toBe(2);
    expect(merged[0]).toBe(3);
  });
});
