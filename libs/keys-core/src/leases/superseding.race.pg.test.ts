import { expect, test } from 'vitest';
import { overlapping, raceSuperseding } from '../testing/superseding-races.ts';

test('deployments that supersede each other never work at the same time, and write nothing once they are superseded', async () => {
  const { works, staleWrites, writes, supersededCount } = await raceSuperseding(6, 6);

  expect(works.length).toBeGreaterThanOrEqual(36);
  expect(supersededCount).toBeGreaterThan(0);
  expect(overlapping(works)).toEqual([]);
  expect(staleWrites).toEqual([]);
  for (const tokens of writes.values()) {
    expect(tokens).toEqual([...tokens].sort((a, b) => (a < b ? -1 : 1)));
  }
});
