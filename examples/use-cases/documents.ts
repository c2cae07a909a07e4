import type { Leasehold } from '@leasehold/client';

export interface DocumentStore {
  read(id: string, signal: AbortSignal): Promise<string>;
  /** Refuses a token that is smaller than one that it has seen. */
  write(
    id: string,
    text: string,
    how: { fencingToken: string; signal: AbortSignal },
  ): Promise<void>;
}

/** Documents that many read at once, and one writes while nobody reads. */
export function createDocuments(leasehold: Leasehold, store: DocumentStore) {
  const inUse = leasehold.defineLease(['documents'], { ttlMs: 10_000 });

  return {
    /** Reads beside other readers, and never while somebody writes. */
    async read<T>(id: string, use: (text: string) => Promise<T>): Promise<T> {
      await using lease = await inUse.acquire(id, { mode: 'shared', waitMs: 10_000 });
      return await use(await store.read(id, lease.signal));
    },

    /** Writes alone, and then lets readers in while it uses what it has written: no writer comes between. */
    async publish<T>(id: string, text: string, use: (text: string) => Promise<T>): Promise<T> {
      await using lease = await inUse.acquire(id, { waitMs: 10_000 });
      const { fencingToken, signal } = lease;
      await store.write(id, text, { fencingToken, signal });
      await lease.downgrade();
      return await use(await store.read(id, signal));
    },
  };
}
