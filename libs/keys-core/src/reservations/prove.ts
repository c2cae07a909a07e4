import { LIMITS } from '../kernel/limits.ts';
import type { ReservationKey, ReservationPointer } from '../kernel/resource/reservation.ts';
import type { Proof, ReservationStatus } from './sql/activate.ts';
import type { ReservationStore } from './store/reservation-store.ts';

export interface ProveDeps {
  readonly store: ReservationStore;
  /** The status of a reservation, as its own datacenter reports it. */
  readonly statusThere: (reservationId: string, key: ReservationKey) => Promise<ReservationStatus>;
}

/**
 * Walks the chain from the key's first reservation until it reaches this one. Undefined when the
 * chain does not contain it.
 *
 * A pointer that the store does not have yet is asked of the datacenter that wrote it, and put into the
 * store before it counts: a reservation is active only when the pointer to it is stored where it
 * outlives the datacenter that wrote it. If the store has another pointer by then, that one counts.
 */
export async function prove(
  deps: ProveDeps,
  reservationId: string,
  key: ReservationKey,
): Promise<Proof | undefined> {
  const { store } = deps;
  // What a nearby replica has is right; it may only lack something newer.
  const nearby = await store.readNearby(key);
  if (nearby === reservationId) return { chain: [], tokenFloor: null };
  const firstId = nearby ?? (await store.read(key));
  if (firstId === undefined) return undefined;
  const chain: string[] = [];
  let id = firstId;
  let tokenFloor: string | null = null;
  while (id !== reservationId) {
    if (chain.length > LIMITS.reservationChainMax) return undefined;
    const pointer = await pointerFrom(deps, id, key);
    if (pointer === undefined) return undefined;
    chain.push(id);
    id = pointer.toId;
    tokenFloor = pointer.tokenFloor;
  }
  return { chain, tokenFloor };
}

/** Where a reservation moved to, put into the store if only its datacenter has it. */
export async function pointerFrom(
  { store, statusThere }: ProveDeps,
  fromId: string,
  key: ReservationKey,
): Promise<ReservationPointer | undefined> {
  const stored = (await store.readPointerNearby(fromId)) ?? (await store.readPointer(fromId));
  if (stored !== undefined) return stored;
  const there = await statusThere(fromId, key);
  return there.standing === 'moved' ? store.putPointer(there.pointer) : undefined;
}
