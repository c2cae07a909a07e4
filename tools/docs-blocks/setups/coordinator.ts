/** A process of a service that shares its database with Leasehold, as docs/recipes/README.md starts it. */
import { createLeaseCoordinator } from '@leasehold/keys-core/leases';
import { createLeaseStore, openStore } from '@leasehold/keys-core/store';
import { createBootClock, systemIds } from '@leasehold/service-kit';

export const clock = createBootClock();
export const store = openStore({
  databaseUrl: process.env['DATABASE_URL'] ?? '',
  datacenter: 'local',
  clock,
  ids: systemIds(),
});
export const coordinator = createLeaseCoordinator({
  store,
  leases: createLeaseStore(store),
  holder: '10.0.0.1:8080',
  principal: 'orders',
});
// <block>
