import type { Lease, Leasehold } from '@leasehold/client';

export interface DocumentStore {
  read(id: string, signal: AbortSignal): Promise<string>;
  /** Refuses a token that is smaller than one that it has seen. */
  write(
    id: string,
    text: string,
    how: { fencingToken: string; signal: AbortSignal },
  ): Promise<void>;
}

/** Work with a text. When the signal aborts others may write, and what called it throws a `LeaseLost`. */
export type Use<T> = (text: string, signal: AbortSignal) => Promise<T>;

/** Documents that many read at once, and one writes while nobody reads. */
export function createDocuments(leasehold: Leasehold, store: DocumentStore) {
  const inUse = leasehold.defineLease(['documents'], { ttlMs: 10_000 });

  return {
    /** Reads beside other readers, and never while somebody writes. */
    read<T>(id: string, use: Use<T>): Promise<T> {
      const work = async ({ signal }: Lease) => use(await store.read(id, signal), signal);
      return inUse.run(id, work, { mode: 'shared', waitMs: 10_000 });
    },

    /** Writes alone, and then lets readers in while it uses what it has written: no writer comes between. */
    publish<T>(id: string, text: string, use: Use<T>): Promise<T> {
      const work = async (lease: Lease) => {
        const { fencingToken, signal } = lease;
        await store.write(id, text, { fencingToken, signal });
        await lease.downgrade();
        return use(await store.read(id, signal), signal);
      };
      return inUse.run(id, work, { waitMs: 10_000 });
    },
  };
}
