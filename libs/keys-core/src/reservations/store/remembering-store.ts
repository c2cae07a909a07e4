import { reservationKeyText } from '../../kernel/resource/reservation.ts';
import type { ReservationKey, ReservationPointer } from '../../kernel/resource/reservation.ts';
import type { Store } from '../../postgres/open-store.ts';
import { putHome, putPointer, readHome, readPointer } from '../sql/home-rows.ts';
import type { ReservationStore } from './reservation-store.ts';

export interface RememberingOptions {
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
