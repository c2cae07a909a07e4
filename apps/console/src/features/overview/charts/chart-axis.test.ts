import { describe, expect, it } from 'vitest';
import { axisTicks } from './chart-axis.ts';

describe('axisTicks', () => {
  it('counts in ones, twos and fives, up to at least the greatest value', () => {
    expect(axisTicks(1, 'count')).toEqual([0, 1]);
    expect(axisTicks(3, 'count')).toEqual([0, 1, 2, 3]);
    expect(axisTicks(360, 'count')).toEqual([0, 100, 200, 300, 400]);
    expect(axisTicks(749, 'count')).toEqual([0, 200, 400, 600, 800]);
  });

  it('marks times that need no rounding', () => {
    expect(axisTicks(170, 'ms')).toEqual([0, 50, 100, 150, 200]);
    expect(axisTicks(7_012, 'ms')).toEqual([0, 2_000, 4_000, 6_000, 8_000]);
    expect(axisTicks(23_700, 'ms')).toEqual([0, 10_000, 20_000, 30_000]);
    expect(axisTicks(100_000, 'ms')).toEqual([0, 30_000, 60_000, 90_000, 120_000]);
  });
});
