import { describe, expect, test } from 'vitest';
import { seriesOf, splitSteps, stepsOf } from './histogram.ts';

describe('steps of a window', () => {
  test.each([
    [5, 10_000, 30],
    [20, 10_000, 120],
    [21, 20_000, 63],
    [60, 30_000, 120],
    [360, 180_000, 120],
    [1_440, 720_000, 120],
  ])('%i minutes are %i ms each', (windowMinutes, stepMs, stepCount) => {
    expect(stepsOf(windowMinutes)).toEqual({ stepMs, stepCount });
  });

  test('every window has 120 steps at most, which cover it', () => {
    for (let minutes = 5; minutes <= 1_440; minutes += 1) {
      const { stepMs, stepCount } = stepsOf(minutes);
      expect(stepCount).toBeLessThanOrEqual(120);
      expect(stepMs % 10_000).toBe(0);
      expect(stepMs * stepCount).toBeGreaterThanOrEqual(minutes * 60_000);
    }
  });

  test('steps before a window are those that its series does not have', () => {
    const asOf = Date.parse('2026-01-01T00:01:05Z');
    const step = (ago: number) => ({
      at: Math.floor((asOf - ago) / 10_000) * 10_000,
      grants: 1,
      releases: 0,
      expiries: 0,
      revocations: 0,
      denials: 0,
      renewals: 0,
      refusedRenewals: 0,
      waits: [],
      handovers: [],
    });
    const window = { asOf, stepMs: 10_000, stepCount: 3 };
    const steps = [55_000, 35_000, 25_000, 0].map(step);

    const { within, before } = splitSteps(steps, window);

    expect(before).toEqual(steps.slice(0, 2));
    expect(within).toEqual(steps.slice(2));
    const series = seriesOf(steps, window);
    expect(series.filter(({ grants }) => grants > 0)).toHaveLength(within.length);
  });

  test('empty steps are included as zeros; the last step holds the present moment', () => {
    const asOf = Date.parse('2026-01-01T00:01:05Z');
    const step = {
      at: asOf - 15_000,
      grants: 2,
      releases: 0,
      expiries: 0,
      revocations: 0,
      denials: 0,
      renewals: 0,
      refusedRenewals: 0,
      waits: [],
      handovers: [],
    };

    const series = seriesOf([step], { asOf, stepMs: 10_000, stepCount: 3 });

    expect(series.map(({ at, grants }) => `${at} ${String(grants)}`)).toEqual([
      '2026-01-01T00:00:40.000Z 0',
      '2026-01-01T00:00:50.000Z 2',
      '2026-01-01T00:01:00.000Z 0',
    ]);
    expect(series[0]?.waitMsP50).toBeNull();
  });
});
