import type { StatsOverview, StatsPoint } from '@leasehold/api/contract';
import { expect, test } from 'vitest';
import { finishedSteps } from './chart-series.ts';

test('a step that is under way, or whose numbers may still arrive, is not drawn', () => {
  const series = ['10:00:00', '10:00:30', '10:01:00'].map(
    (time) => ({ at: `2026-11-20T${time}.000Z` }) as StatsPoint,
  );
  const drawnAt = (time: string): number =>
    finishedSteps({ series, stepMs: 30_000, asOf: `2026-11-20T${time}.000Z` } as StatsOverview)
      .length;

  expect(drawnAt('10:01:04')).toBe(1);
  expect(drawnAt('10:01:05')).toBe(2);
  expect(drawnAt('10:01:34')).toBe(2);
  expect(drawnAt('10:01:35')).toBe(3);
});
