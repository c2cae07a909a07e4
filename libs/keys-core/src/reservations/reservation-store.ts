import {
  type ReservationKey,
  reservationKeyText,
  type ReservationPointer,
} from '../kernel/reservation.ts';
import type { Store } from '../postgres/open-store.ts';
import { putHome, putPointer, readHome, readPointer, reserveHere } from './sql/reservations.ts';

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

interface RememberingOptions {
  readonly store: Pick<Store, 'general'>;
  /** Called when an answer could not be recorded; the caller gets the answer all the same. */
  readonly onForgotten: (error: unknown) => void;
}

/**
 * A reservation store whose answers are kept in the datacenter's own PostgreSQL too, so that a
 * controller which is started while etcd is cut off still resolves what was resolved here once.
 *
 * Reads that may be behind look there first: what was written once never changes. Reads that must
 * not be behind, and writes, go to the inner store.
 */
export function createRememberingStore(
  inner: ReservationStore,
  { store, onForgotten }: RememberingOptions,
): ReservationStore {
  const { general } = store;

  async function remembered<Id extends string | undefined>(
    key: ReservationKey,
    answer: Promise<Id>,
  ): Promise<Id> {
    const id = await answer;
    if (id !== undefined) {
      await kept(putHome(general, reservationKeyText(key), id), (held) => held === id);
    }
    return id;
  }

  async function rememberedPointer<Pointer extends ReservationPointer | undefined>(
    answer: Promise<Pointer>,
  ): Promise<Pointer> {
    const pointer = await answer;
    if (pointer !== undefined) {
      await kept(putPointer(general, pointer), (held) => held.toId === pointer.toId);
    }
    return pointer;
  }

  async function kept<T>(writing: Promise<T>, isSame: (held: T) => boolean): Promise<void> {
    try {
      // Which of the two is right is not decided here: the controller's start checks it.
      if (!isSame(await writing)) onForgotten(new Error('the database and the store differ'));
    } catch (error) {
      onForgotten(error);
    }
  }

  return {
    kind: inner.kind,
    async put(key, reservationId, activateFor) {
      const put = await inner.put(key, reservationId, activateFor);
      await remembered(key, Promise.resolve(put.reservationId));
      return put;
    },
    readNearby: async (key) =>
      (await readHome(general, reservationKeyText(key))) ?? remembered(key, inner.readNearby(key)),
    read: (key) => remembered(key, inner.read(key)),
    putPointer: (pointer) => rememberedPointer(inner.putPointer(pointer)),
    readPointerNearby: async (fromId) =>
      (await readPointer(general, fromId)) ?? rememberedPointer(inner.readPointerNearby(fromId)),
    readPointer: (fromId) => rememberedPointer(inner.readPointer(fromId)),
    close: () => inner.close(),
  };
}

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
