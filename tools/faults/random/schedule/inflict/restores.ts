/** Restores of the database from an older backup, while drones, services and backends live on. */
import { setTimeout as pause } from 'node:timers/promises';
import { machineMs } from '../../../stage/machine-time.ts';
import type { World } from '../../world/world.ts';

/** What a restore takes besides the time whose changes it loses. */
const RESTORE_MS = 3_000;

/** All controllers are stopped, the backup is recovered to a timeline of its own, they are started again. */
export async function restoreAsTheRunbookSays(
  world: World,
  _target: string,
  forMs: number,
): Promise<void> {
  const { controllers } = world.fleet;
  const backupFromMs = machineMs();
  const backup = await world.database.backUp('recovered');
  await pause(forMs - RESTORE_MS);
  await Promise.all(controllers.map((controller) => controller.stop()));
  await world.restore(backup, backupFromMs);
  await Promise.all(controllers.map((_one, index) => world.fleet.restartController(index)));
}

/** The backup keeps its timeline: only those who saw what is lost can notice it. */
export async function putBackUnderControllers(
  world: World,
  _target: string,
  forMs: number,
): Promise<void> {
  const backupFromMs = machineMs();
  const backup = await world.database.backUp('copy');
  await pause(forMs - RESTORE_MS);
  await world.restore(backup, backupFromMs);
}
