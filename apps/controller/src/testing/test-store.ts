import { openStore, type Store } from '@leasehold/keys-core/postgres';
import { createBootClock, systemIds } from '@leasehold/service-kit';
import { createTestDatabase } from '@leasehold/testing';
import { onTestFinished } from 'vitest';

/** A store on a database, by default one of its own, until the test ends. */
export async function openTestStore(databaseUrl?: string): Promise<Store> {
  const store = openStore({
    databaseUrl: databaseUrl ?? (await createTestDatabase()).url,
    datacenter: 'local',
    clock: createBootClock(),
    ids: systemIds(),
  });
  onTestFinished(() => store.close());
  return store;
}
