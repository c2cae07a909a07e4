import type { StatsOverview, StatsPoint } from '@leasehold/api/contract';
import { useState } from 'react';
import { finishedSteps, isSameSteps } from './chart-series.ts';

/** The steps that are over: the same list until a number of them changes, so that nothing is drawn without need. */
export function useSteps(
  stats: Pick<StatsOverview, 'series' | 'stepMs' | 'asOf'>,
): readonly StatsPoint[] {
  const next = finishedSteps(stats);
  const [known, setKnown] = useState<readonly StatsPoint[]>(next);
  if (isSameSteps(known, next)) return known;
  setKnown(next);
  return next;
}
