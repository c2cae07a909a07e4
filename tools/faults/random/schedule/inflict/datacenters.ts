/** Faults between datacenters, and of one of them. */
import { setTimeout as pause } from 'node:timers/promises';
import type { SharedDatacenters } from '../../world/datacenters.ts';
import type { World } from '../../world/world.ts';

export async function cutOff(world: World, target: string, forMs: number): Promise<void> {
  const { datacenters } = sharedOf(world);
  datacenters.cut(target);
  try {
    await pause(forMs);
  } finally {
    datacenters.heal(target);
  }
}

/** Its controller is gone while the others reserve fresh keys. */
export async function takeDown(world: World, target: string, forMs: number): Promise<void> {
  const { datacenters } = sharedOf(world);
  await datacenters.dc(target).controller().kill();
  await pause(forMs);
  await datacenters.dc(target).restartController();
}

function sharedOf({ shared }: World): SharedDatacenters {
  if (shared === undefined) throw new Error('this run has one datacenter');
  return shared;
}
