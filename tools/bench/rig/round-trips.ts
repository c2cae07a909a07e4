import type { Figure } from './figures.ts';
import { milliseconds } from './quantities.ts';
import { durationMsOf, median } from './rounds.ts';

/** Between any two datacenters. */
export const ROUND_TRIP_MS = 40;

/** The median of several tries, one after the other, after one that opens connections. */
export async function medianOf(triesCount: number, work: () => Promise<unknown>): Promise<number> {
  await work();
  const tries: number[] = [];
  for (let turn = 0; turn < triesCount; turn += 1) tries.push(await durationMsOf(work));
  return median(tries);
}

/** A duration in round trips, and whether it is as many as were allowed. */
export function tripsFigure(
  what: string,
  [least, most]: readonly [number, number],
  durationMs: number,
): Figure {
  const trips = durationMs / ROUND_TRIP_MS;
  return {
    what: `${what}, with ${String(ROUND_TRIP_MS)} ms between datacenters`,
    ours: milliseconds(durationMs),
    result: { value: trips, unit: 'round trips' },
    // What a round trip does not explain is work: less than half of one.
    required: { is: 'about', value: (least - 0.1 + most + 0.5) / 2, by: (most - least + 0.6) / 2 },
  };
}
