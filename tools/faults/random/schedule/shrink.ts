import { SECONDS_MIN, type RunOptions } from '../options.ts';
import { CALM_LAST_MS, type PlannedFault } from './plan.ts';

/**
 * For how long a run has to last for some faults of its plan. A shorter plan of random faults begins like the
 * longer one of the same seed, as far as all that began before those has ended; one with every fault once is
 * another plan.
 */
export function secondsFor(
  ids: readonly string[],
  plan: readonly PlannedFault[],
  { seconds, isEachOnce }: Pick<RunOptions, 'seconds' | 'isEachOnce'>,
): number {
  if (isEachOnce) return seconds;
  const last = plan.findLastIndex(({ id }) => ids.includes(id));
  const begun = plan.slice(0, last + 1);
  const endsAtMs = Math.max(0, ...begun.map(({ atMs, forMs }) => atMs + forMs));
  const shortest = Math.ceil((endsAtMs + CALM_LAST_MS) / 1_000);
  return Math.min(seconds, Math.max(SECONDS_MIN, shortest));
}

/** More runs than this are not tried: each takes as long as the run that failed. */
const RUNS_MAX = 16;

/**
 * The fewest faults that are found to fail still, by leaving out halves, then quarters, and so on. Chance
 * may hide a failure, so the result is a small failing schedule, and not always the smallest.
 */
export async function shrink(
  ids: readonly string[],
  fails: (ids: readonly string[]) => Promise<boolean>,
): Promise<readonly string[]> {
  let smallest = ids;
  let runsCount = 0;
  for (let parts = 2; parts <= 2 * smallest.length && smallest.length > 1;) {
    const size = Math.ceil(smallest.length / parts);
    let isSmaller = false;
    for (let from = 0; from < smallest.length && !isSmaller; from += size) {
      const rest = smallest.filter((_id, index) => index < from || index >= from + size);
      if (rest.length === 0) continue;
      if (runsCount === RUNS_MAX) return smallest;
      runsCount += 1;
      if (!(await fails(rest))) continue;
      smallest = rest;
      isSmaller = true;
    }
    if (!isSmaller && size === 1) return smallest;
    if (!isSmaller) parts *= 2;
  }
  return smallest;
}
