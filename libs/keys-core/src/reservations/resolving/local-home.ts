import { conflict } from '../invalid.ts';
import { reservationKeyText, type ReservationKey } from '../../kernel/resource/reservation.ts';
import { LRUCache } from 'lru-cache';
import { boundedTo } from './bounded-to.ts';
import type { Store } from '../../postgres/open-store.ts';
import { activate, readReservationStatus, type ReservationStatus } from '../sql/activate.ts';
import { prove, type ProveDeps } from '../prove.ts';

/** How many active reservations are remembered, so that a connect need not look them up. */
const ACTIVE_MAX = 200_000;

/** The reservations of this datacenter, and what they are. */
export interface LocalHome {
  /** The status of a reservation; one that is not active yet is activated if its chain leads to it. */
  reservationStatus(
    reservationId: string,
    key: ReservationKey,
    actor: string,
  ): Promise<ReservationStatus>;
  /** The status by this database alone; activates nothing. */
  look(reservationId: string, key: ReservationKey): Promise<ReservationStatus>;
  /** Remembers that a reservation is active, as the store has just said. */
  remember(reservationId: string, key: ReservationKey): void;
  /** Forgets that a reservation was active: the key's row shows otherwise. */
  forget(reservationId: string): void;
}

export function createLocalHome(store: Pick<Store, 'general'>, proving: ProveDeps): LocalHome {
  // A remembered reservation may no longer be active; then the lease row refuses, see `forget`.
  const active = new LRUCache<string, string>(boundedTo(ACTIVE_MAX));

  async function resolveStatus(
    reservationId: string,
    key: ReservationKey,
    actor: string,
  ): Promise<ReservationStatus> {
    const known = await readReservationStatus(store.general, reservationId, key);
    if (known.standing !== 'pending') return known;
    // A database that was restored may have forgotten that it has left; the store has not.
    const onward = await proving.store.readPointerNearby(reservationId);
    if (onward !== undefined) return { standing: 'moved', pointer: onward };
    const proof = await prove(proving, reservationId, key);
    if (proof === undefined) return known;
    const status = await activate(store, { ...proof, reservationId, key, actor });
    if (status.standing === 'pending') {
      // Proven and not activated: another reservation is the active home of this very key here.
      throw conflict(reservationId);
    }
    return status;
  }

  return {
    async reservationStatus(reservationId, key, actor) {
      const keyText = reservationKeyText(key);
      if (active.get(reservationId) === keyText) return { standing: 'active' };
      const status = await resolveStatus(reservationId, key, actor);
      if (status.standing === 'active') active.set(reservationId, keyText);
      return status;
    },
    look: (reservationId, key) => readReservationStatus(store.general, reservationId, key),
    remember: (reservationId, key) => {
      active.set(reservationId, reservationKeyText(key));
    },
    forget: (reservationId) => {
      active.delete(reservationId);
    },
  };
}
