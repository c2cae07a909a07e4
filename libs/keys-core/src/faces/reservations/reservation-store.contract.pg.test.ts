import { openKernel } from '../../testing/kernel-fixture.ts';
import { createTestDatabase } from '@leasehold/testing';
import { createPostgresReservationStore } from './postgres-store.ts';
import { describeReservationStore } from './reservation-store.contract-for-test.ts';

const database = createTestDatabase();

describeReservationStore('PostgreSQL', async () => {
  const { store } = await openKernel({ databaseUrl: (await database).url });
  return createPostgresReservationStore(store);
});
