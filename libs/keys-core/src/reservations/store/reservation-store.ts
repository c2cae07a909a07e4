import type { ReservationKey, ReservationPointer } from '../../kernel/resource/reservation.ts';

export interface PutReservation {
  readonly outcome: 'reserved' | 'existing';
  readonly reservationId: string;
  /** Whether it is known to be the active home here: then no pointer leads on, and nothing is to be proven. */
  readonly isActive?: boolean | undefined;
}

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
  /**
   * Reserves a key, unless it is reserved: then it returns the existing id. Linearizable.
   * @param activateFor who is about to use the reservation here: a store that is this datacenter's own
   * database makes a new one active in the same statement, because nothing else could prove it better.
   */
  put(key: ReservationKey, reservationId: string, activateFor?: string): Promise<PutReservation>;
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
