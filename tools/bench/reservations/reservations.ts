import type { Figure } from '../rig/figures.ts';
import { ETCD } from '../services/etcd-service.ts';
import { provide } from '../services/peer-server.ts';
import { measureRoundTrips } from './reservations-across.ts';
import { measureCachedHomes } from './reservations-cache.ts';
import { measureRemoteConnects } from './reservations-connects.ts';
import { measureReservationStores } from './reservations-stores.ts';
import type { Rig } from '../rig/rig.ts';

/** Where keys live: how fast that is found and decided, from how far, and what remembering it takes. */
export async function measureReservations(rig: Rig): Promise<Figure[]> {
  const cached = await measureCachedHomes(rig);
  if ((await provide(ETCD)) === undefined) return cached;
  const stores = await measureReservationStores(rig);
  await rig.clear();
  const trips = await measureRoundTrips(rig);
  await rig.clear();
  return [...cached, ...stores, ...trips, ...(await measureRemoteConnects(rig))];
}
