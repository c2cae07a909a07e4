/**
 * A program: connects to a key of its own datacenter and to one of another, by real controllers with
 * `ROUND_TRIP_MS` between them, and prints the median of each as JSON. It runs from its sources, because
 * it starts the apps as they ship and finds them relative to its own place.
 *
 *   tools/bench/reservations/remote-connects.ts TRIES
 */
import { randomUUID } from 'node:crypto';
import { startDatacenters } from '@leasehold/testing/datacenters';
import { ROUND_TRIP_MS, medianOf } from '../rig/round-trips.ts';

const triesCount = Number(process.argv[2]);
const world = await startDatacenters({ delayMs: ROUND_TRIP_MS / 2 });
try {
  const key = { name: `remote-${randomUUID()}` };
  const asked = { key, spawn: { program: 'idle' }, waitFor: 'ready' } as const;
  const connectAt = (name: string): Promise<unknown> =>
    world.dc(name).api('client').keys.connect.mutate(asked);
  await connectAt('dc1');
  const localMs = await medianOf(triesCount, () => connectAt('dc1'));
  const remoteMs = await medianOf(triesCount, () => connectAt('dc2'));
  console.log(JSON.stringify({ localMs, remoteMs }));
} finally {
  await world.close();
}
