import { reservationKeyText } from '../../kernel/resource/reservation.ts';
import type { ReservationKey, ReservationPointer } from '../../kernel/resource/reservation.ts';
import type { Store } from '../../postgres/open-store.ts';
import { putHome, putPointer, readHome, readPointer } from '../sql/home-rows.ts';
import type { ReservationStore } from './reservation-store.ts';

export interface RememberingOptions {
  readonly store: Pick<Store, 'prisma'>;
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
  const { prisma } = store;

  async function remember(key: ReservationKey, reservationId: string | undefined): Promise<void> {
    if (reservationId === undefined) return;
    await kept(
      putHome(prisma, reservationKeyText(key), reservationId),
      (held) => held === reservationId,
    );
  }

  async function rememberPointer(pointer: ReservationPointer | undefined): Promise<void> {
    if (pointer === undefined) return;
    await kept(putPointer(prisma, pointer), (held) => held.toId === pointer.toId);
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
    async put(key, reservationId) {
      const put = await inner.put(key, reservationId);
      await remember(key, put.reservationId);
      return put;
    },
    async readNearby(key) {
      const known = await readHome(prisma, reservationKeyText(key));
      if (known !== undefined) return known;
      const found = await inner.readNearby(key);
      await remember(key, found);
      return found;
    },
    async read(key) {
      const found = await inner.read(key);
      await remember(key, found);
      return found;
    },
    async putPointer(pointer) {
      const stored = await inner.putPointer(pointer);
      await rememberPointer(stored);
      return stored;
    },
    async readPointerNearby(fromId) {
      const known = await readPointer(prisma, fromId);
      if (known !== undefined) return known;
      const found = await inner.readPointerNearby(fromId);
      await rememberPointer(found);
      return found;
    },
    async readPointer(fromId) {
      const found = await inner.readPointer(fromId);
      await rememberPointer(found);
      return found;
    },
    close: () => inner.close(),
  };
}
