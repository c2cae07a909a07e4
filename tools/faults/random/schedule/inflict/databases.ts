/** Faults of the database, and of what is asked of it. */
import { setTimeout as pause } from 'node:timers/promises';
import { machineMs } from '../../../stage/machine-time.ts';
import type { World } from '../../world/world.ts';
import { NAMESPACE } from '../../world/workers/settings.ts';

/** More than a jump, and more than what is left of most grants. */
const STEP_MS = 3_000;

export async function stepClockBack(world: World, _target: string, forMs: number): Promise<void> {
  await world.stepClock(-STEP_MS);
  await pause(forMs);
}

export async function stepClockForward(
  world: World,
  _target: string,
  forMs: number,
): Promise<void> {
  await world.stepClock(STEP_MS);
  await pause(forMs);
}

export async function killDatabase(world: World, _target: string, forMs: number): Promise<void> {
  await world.database.kill();
  await pause(forMs);
  await world.database.restart();
}

export function lockLeases(world: World, _target: string, forMs: number): Promise<void> {
  return world.database.lockLeases(forMs);
}

const END_EVERY_MS = 300;

export async function loseNotifications(
  world: World,
  _target: string,
  forMs: number,
): Promise<void> {
  const endAtMs = machineMs() + forMs;
  while (machineMs() < endAtMs) {
    // The database may be what fails besides.
    await world.database.endListeners().catch(() => undefined);
    await pause(END_EVERY_MS);
  }
}

const TOGETHER_COUNT = 400;
const PER_CALL = 100;
const TOGETHER_TTL_MS = 1_500;

export async function expireTogether(world: World, target: string, forMs: number): Promise<void> {
  const api = world.fleet.api(Number(target.slice(1)));
  const beganAtMs = machineMs();
  for (let from = 0; from < TOGETHER_COUNT; from += PER_CALL) {
    const items = Array.from({ length: PER_CALL }, (_, index) => ({
      namespace: [NAMESPACE, 'together'],
      key: `${String(beganAtMs)}-${String(from + index)}`,
      ttlMs: TOGETHER_TTL_MS,
      holder: 'nobody',
    }));
    // What is not granted because of another fault does not expire.
    await api.leases.acquireMany.mutate({ localTimeMs: machineMs(), items }).catch(() => undefined);
  }
  await pause(Math.max(0, beganAtMs + forMs - machineMs()));
}
