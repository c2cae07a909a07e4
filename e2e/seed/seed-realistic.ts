import type { Stack } from '../fixtures/stack.ts';
import { addAudit, addTokens } from './access.ts';
import { addEnvironments, type SeededEnvironments } from './environments.ts';
import { addDrones } from './fleet.ts';
import { keepAlive } from './keep-alive.ts';
import { addKeys, type SeededKeys } from './keys.ts';
import { addLeases, type SeededLeases } from './leases.ts';
import { addReservations } from './reservations.ts';
import { addStatistics } from './statistics.ts';
import { World } from './world.ts';

/** What was put into a Leasehold, and where tests find it again. */
export interface Seeded {
  readonly keys: SeededKeys;
  readonly leases: SeededLeases;
  readonly environments: SeededEnvironments;
  /** A reserved key that lives here, and has been elsewhere. */
  readonly travelledKey: readonly string[];
  /** A backend that runs, and has gone through all states until then. */
  readonly backendId: string;
  /** Ends the renewals of what was seeded; the grants run out then. */
  stop(): void;
}

const SEED = 20_261_121;

/**
 * A company's working day: keys in every phase on five machines, services with leases that others
 * wait for, environments with who uses them and why, what operators did, and an hour of figures.
 * The same every time. What it shows as held stays held: rows are renewed as their holders would do.
 */
export async function seedRealistic(stack: Pick<Stack, 'sql' | 'datacenter'>): Promise<Seeded> {
  const { sql, datacenter } = stack;
  // The people were created a moment ago; that must not be the operators' latest action.
  await sql.query(`update audit set at = at - interval '40 days'`);
  const world = await World.begin(sql, SEED);
  const drones = addDrones(world, datacenter);
  const keys = addKeys(world, drones, datacenter);
  const leases = addLeases(world);
  const environments = addEnvironments(world);
  addAudit(world);
  addTokens(world);
  const travelledKey = addReservations(world, datacenter);
  await world.write(sql);
  await addStatistics(sql, world);
  await sql.query('analyze');
  const liveDrones = drones.filter(({ state }) => state === 'ready' || state === 'draining');
  const stop = keepAlive(sql, {
    renewedLeaseIds: [
      ...keys.renewedLeaseIds,
      ...leases.renewedLeaseIds,
      ...environments.renewedLeaseIds,
    ],
    blockedLeaseIds: keys.blockedLeaseIds,
    droneIds: liveDrones.map(({ droneId }) => droneId),
  });
  return {
    keys,
    leases,
    environments,
    travelledKey,
    backendId: backendOf(world, keys.busy.name),
    stop,
  };
}

function backendOf(world: World, keyName: string): string {
  return String(world.rowsOf('backend').find(({ name }) => name === keyName)?.['id']);
}
