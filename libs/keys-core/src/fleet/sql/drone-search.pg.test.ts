import { expect, test } from 'vitest';
import { aDrone } from '../../testing/fleet-fixture.ts';
import { openKernel } from '../../testing/kernel-fixture.ts';
import { countListedDrones, listDrones } from './drones.ts';

test('drones are found and counted by a part of their ids, in any case', async () => {
  const { store } = await openKernel();
  for (const droneId of ['drone-fra-1', 'drone-fra-2', 'drone-lon-1']) {
    await aDrone(store.general, { droneId });
  }
  const find = async (search: string | undefined): Promise<[string[], number]> => {
    const { items } = await listDrones(store.general, { search, limit: 10 }, 1_000);
    const { count } = await countListedDrones(store.general, { search }, 1_000);
    return [items.map(({ droneId }) => droneId), count];
  };

  expect(await find('FRA')).toEqual([['drone-fra-1', 'drone-fra-2'], 2]);
  expect(await find('n-1')).toEqual([['drone-lon-1'], 1]);
  expect(await find('%')).toEqual([[], 0]);
  expect((await find(undefined))[1]).toBe(3);
});
