/** Faults of a connection pooler. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Pooler } from '../../world/pooler.ts';
import type { World } from '../../world/world.ts';

export async function killPooler(world: World, _target: string, forMs: number): Promise<void> {
  const pooler = poolerOf(world);
  await pooler.kill();
  await pause(forMs);
  await pooler.restart();
}

/** Its sessions are cut, and it gets no others; its clients stay connected. */
export async function refuseSessions(world: World, target: string, forMs: number): Promise<void> {
  const lines = world.network.lines(target, 'database');
  for (const line of lines) line.refuse();
  try {
    await pause(forMs);
  } finally {
    for (const line of lines) line.heal();
  }
}

function poolerOf({ pooler }: World): Pooler {
  if (pooler === undefined) throw new Error('this run has no pooler');
  return pooler;
}
