import { reservationKeyText } from '../../kernel/resource/reservation.ts';
import type { Store } from '../../postgres/open-store.ts';
import { putPointer, readHome, readPointer, reserveHere } from '../sql/home-rows.ts';
import type { ReservationStore } from './reservation-store.ts';

/**
 * The reservation store of a datacenter that is alone: its own database. When that cannot be reached,
 * nothing else can either: its errors are the database's, as everywhere. Once the datacenter has been
 * joined to others, whose store is etcd, it takes no reservation: `reservation.store_unreachable`.
 */
export function createPostgresReservationStore(store: Pick<Store, 'general'>): ReservationStore {
  const { general } = store;
  return {
    kind: 'postgres',
    async put(key, reservationId, activateFor) {
      const { held, isActive } = await reserveHere(general, { key, reservationId, activateFor });
      return {
        outcome: held === reservationId ? 'reserved' : 'existing',
        reservationId: held,
        isActive: activateFor === undefined ? undefined : isActive,
      };
    },
    readNearby: (key) => readHome(general, reservationKeyText(key)),
    read: (key) => readHome(general, reservationKeyText(key)),
    putPointer: (pointer) => putPointer(general, pointer),
    readPointerNearby: (fromId) => readPointer(general, fromId),
    readPointer: (fromId) => readPointer(general, fromId),
    close: () => Promise.resolve(),
  };
}
