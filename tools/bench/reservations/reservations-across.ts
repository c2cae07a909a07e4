import { randomUUID } from 'node:crypto';
import {
  createEtcdReservationStore,
  createResolver,
  type Resolver,
} from '@leasehold/keys-core/reservations';
import { createBootClock } from '@leasehold/service-kit';
import { createWideArea, startEtcdAcross } from '@leasehold/testing/datacenters';
import { waitUntil } from '@leasehold/testing/stack';
import type { Figure } from '../rig/figures.ts';
import type { Rig } from '../rig/rig.ts';
import { ROUND_TRIP_MS, medianOf, tripsFigure } from '../rig/round-trips.ts';
import { durationMsOf } from '../rig/rounds.ts';

const NAMES = ['dc1', 'dc2', 'dc3'];

interface Ends {
  /** In the datacenter of etcd's leader, and in another one. */
  readonly near: Resolver;
  readonly far: Resolver;
  /** Makes a resolver that remembers nothing, in the other datacenter. */
  readonly forgetful: () => Resolver;
}

/** How many round trips between datacenters it takes to find, and to decide, where a key lives. */
export async function measureRoundTrips(rig: Rig): Promise<Figure[]> {
  const { near, far, forgetful } = await openEnds(rig);
  const triesCount = rig.isQuick ? 5 : 25;
  const known = keyOf('known');
  await near.reserve(known, idOf('dc1'));
  await far.resolve(known);
  return [
    await tripsOf('a cached resolve', [0, 0], triesCount, () => far.resolve(known)),
    await tripsOf('the first resolve of a known key', [0, 1], triesCount, () =>
      forgetful().resolve(known),
    ),
    await tripsOf('a fresh reservation where the leader is', [1, 2], triesCount, () =>
      near.reserve(keyOf('near'), idOf('dc1')),
    ),
    await tripsOf('a fresh reservation elsewhere', [2, 3], triesCount, () =>
      far.reserve(keyOf('far'), idOf('dc2')),
    ),
  ];
}

function keyOf(name: string): [string, string] {
  return ['rooms', `${name}-${randomUUID()}`];
}

function idOf(datacenter: string): string {
  return `${datacenter}.${randomUUID()}`;
}

async function tripsOf(
  what: string,
  bounds: readonly [number, number],
  triesCount: number,
  work: () => Promise<unknown>,
): Promise<Figure> {
  return tripsFigure(what, bounds, await medianOf(triesCount, work));
}

async function openEnds(rig: Rig): Promise<Ends> {
  const area = createWideArea(NAMES, ROUND_TRIP_MS / 2);
  rig.onClose(() => area.close());
  const etcd = await startEtcdAcross(area, NAMES);
  rig.onClose(() => etcd.stop());
  const leader = NAMES[(await etcd.leader()) ?? 0] ?? '';
  const other = NAMES.find((name) => name !== leader) ?? '';
  const memberOf = (name: string): URL => new URL(etcd.endpoints[NAMES.indexOf(name)] ?? '');
  const open = async (at: string) => {
    const endpoints = [memberOf(at).origin];
    for (const name of NAMES.filter((one) => one !== at)) {
      const { hostname: host, port } = memberOf(name);
      endpoints.push(await area.lay(at, name, { host, port: Number(port) }));
    }
    const store = createEtcdReservationStore({ endpoints, clock: createBootClock() });
    rig.onClose(() => store.close());
    return store;
  };
  const farStore = await open(other);
  // A member that took too long to connect is asked last for a while.
  await waitUntil(
    async () => (await durationMsOf(() => farStore.readNearby(keyOf('warm')))) < ROUND_TRIP_MS / 2,
    { what: 'an answer of the nearest member' },
  );
  return {
    near: createResolver({ store: await open(leader) }),
    far: createResolver({ store: farStore }),
    // Small: a large one takes longer to make than a key takes to resolve.
    forgetful: () => createResolver({ store: farStore, cachedMax: 10 }),
  };
}
