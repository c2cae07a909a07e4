import { openStore, type Store } from '@leasehold/keys-core/postgres';
import { createBootClock, systemIds } from '@leasehold/service-kit';

/** Works on the database itself, by connections that are closed afterwards. */
export async function withStore<Result>(
  databaseUrl: string,
  datacenter: string,
  work: (store: Store) => Promise<Result>,
): Promise<Result> {
  const store = openStore({ databaseUrl, datacenter, clock: createBootClock(), ids: systemIds() });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}
