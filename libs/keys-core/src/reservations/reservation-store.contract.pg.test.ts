import { expect, test } from 'vitest';
import { createTestDatabase } from '@leasehold/testing';
import { openKernel } from '../testing/kernel-fixture.ts';
import { aKey, anId, describeReservationStore } from './reservation-store.contract-for-test.ts';
import { createPostgresReservationStore } from './reservation-store.ts';
import { noteMembership } from './sql/membership.ts';

const database = createTestDatabase();

describeReservationStore('PostgreSQL', async () => {
  const { store } = await openKernel({ databaseUrl: (await database).url });
  return createPostgresReservationStore(store);
});

test.each(['publishing', '14841639068965178418'])(
  'a database whose reservations are in etcd (%s) accepts no new one, and can read those that it has',
  async (storeId) => {
    const { store } = await openKernel();
    const reservations = createPostgresReservationStore(store);
    const [known, id, fresh] = [aKey(), anId(), aKey()];
    await reservations.put(known, id);

    await noteMembership(store.general, { storeId });

    const refused = { code: 'reservation.store_unreachable' };
    await expect(reservations.put(fresh, anId())).rejects.toMatchObject(refused);
    await expect(reservations.put(known, id)).rejects.toMatchObject(refused);
    expect(await reservations.read(fresh)).toBeUndefined();
    expect(await reservations.read(known)).toBe(id);
  },
);
