import { expect, test } from 'vitest';
import { overlapping, raceSuperseding } from '../testing/superseding-races.ts';

test('in a thousand supersedings no two deployments work at the same time, and none writes once it is superseded', async () => {
  const { works, staleWrites, writes, supersededCount } = await raceSuperseding(20, 90);

  expect(overlapping(works)).toEqual([]);
  expect(staleWrites).toEqual([]);
  for (const tokens of writes.values()) {
    expect(tokens).toEqual([...tokens].sort((a, b) => (a < b ? -1 : 1)));
  }
  expect(supersededCount).toBeGreaterThanOrEqual(1_000);
}, 900_000);
