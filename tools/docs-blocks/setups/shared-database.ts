/** A service that takes its leases from a controller and works in the same database. */
import { createLeasehold } from '@leasehold/client';
import { openStore } from '@leasehold/keys-core/store';
import { createBootClock, systemIds } from '@leasehold/service-kit';

export const store = openStore({
  databaseUrl: process.env['DATABASE_URL'] ?? '',
  datacenter: 'local',
  clock: createBootClock(),
  ids: systemIds(),
});
await store.prisma.$executeRaw`create table if not exists account (id text, balance int)`;
export const leasehold = createLeasehold({
  url: process.env['LEASEHOLD_URL'] ?? '',
  token: process.env['LEASEHOLD_TOKEN'] ?? '',
});
// <block>
