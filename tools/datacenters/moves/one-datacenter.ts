import { HEARTBEAT_MS, KEY_LADDERS } from '@leasehold/keys-core';
import { createKeyService } from '@leasehold/keys-core/keys';
import {
  createEtcdReservationStore,
  createRememberingStore,
  createReservationService,
  type Peers,
  type ReservationService,
  type ReservationStore,
} from '@leasehold/keys-core/reservations';
import { chooseDrone } from '@leasehold/keys-core/fleet';
import { createLeaseStore } from '@leasehold/keys-core/grants';
import { openStore, type Store } from '@leasehold/keys-core/postgres';
import { createBootClock, systemIds } from '@leasehold/service-kit';

/** Where a datacenter keeps what it knows. */
export interface DatacenterPlace {
  readonly name: string;
  readonly databaseUrl: string;
  readonly etcd: readonly string[];
}

/** Keys and reservations of one datacenter, as its controller puts them together. */
export interface OneDatacenter {
  readonly store: Store;
  readonly service: ReservationService;
  close(): Promise<void>;
}

/** `around` wraps what the service calls outside: the reservation store. */
export function openDatacenter(
  { name, databaseUrl, etcd }: DatacenterPlace,
  peers: Peers,
  around: (store: ReservationStore) => ReservationStore = (store) => store,
): OneDatacenter {
  const clock = createBootClock();
  const store = openStore({ databaseUrl, datacenter: name, clock, ids: systemIds() });
  const heartbeatMs = HEARTBEAT_MS.standard;
  const keys = createKeyService({
    store,
    leases: createLeaseStore(store),
    ladder: KEY_LADDERS.standard,
    heartbeatMs,
    chooseDrone: (wanted) =>
      chooseDrone(store, {
        ...wanted,
        datacenter: name,
        heartbeatMs,
        random: () => store.ids.random(),
      }),
  });
  const inEtcd = createEtcdReservationStore({ endpoints: etcd, clock });
  const reservations = createRememberingStore(around(inEtcd), {
    store,
    onForgotten: (error) => {
      throw error;
    },
  });
  return {
    store,
    service: createReservationService({ store, keys, reservations, peers }),
    async close() {
      await reservations.close();
      await store.close();
    },
  };
}
