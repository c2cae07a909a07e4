import type { ReservationKey, ReservationPointer } from '../../kernel/resource/reservation.ts';

/**
 * Where the homes of keys are written down, once and permanently, for all datacenters: the part of Epoxy.
 * PostgreSQL where there is one datacenter, etcd where there are several; one contract test covers both.
 *
 * Every method throws when it cannot get the answer, and never guesses: `reservation.store_unreachable`,
 * or where the store is the datacenter's own database, what the database throws.
 * A write whose answer was lost is read back linearizably before anything is said of it.
 */
export interface ReservationStore {
  readonly kind: 'postgres' | 'etcd';
  /** Reserves a key, unless it is reserved: then it returns the existing id. Linearizable. */
  put(
    key: ReservationKey,
    reservationId: string,
  ): Promise<{ readonly outcome: 'reserved' | 'existing'; readonly reservationId: string }>;
  /** What a nearby replica knows: a value is right, because values never change; it may be behind. */
  readNearby(key: ReservationKey): Promise<string | undefined>;
  /** The present value, everywhere. Only a "nothing" from this read may be believed. */
  read(key: ReservationKey): Promise<string | undefined>;
  /** Writes where a reservation moved to, unless it is written. @returns what is written. */
  putPointer(pointer: ReservationPointer): Promise<ReservationPointer>;
  readPointerNearby(fromId: string): Promise<ReservationPointer | undefined>;
  readPointer(fromId: string): Promise<ReservationPointer | undefined>;
  close(): Promise<void>;
}
