/** A coordinator that begins a call and is never done with it: `call-worker.ts DATABASE_URL`. */
import { createLeaseCoordinator } from '@leasehold/keys-core/leases';
import { createLeaseStore, openStore } from '@leasehold/keys-core/store';
import { createBootClock, systemIds } from '@leasehold/service-kit';
import { AsyncCalls } from '../async-calls.ts';

const [databaseUrl = ''] = process.argv.slice(2);
const clock = createBootClock();
const store = openStore({ databaseUrl, datacenter: 'local', clock, ids: systemIds() });
const leases = createLeaseStore(store);
const coordinator = createLeaseCoordinator({
  ...{ store, leases },
  holder: `worker ${String(process.pid)}`,
  principal: 'service',
});

process.once('disconnect', () => {
  process.exit(1);
});
await new AsyncCalls(coordinator, store.prisma).executeNext(() => {
  process.send?.({ type: 'ready' });
  return new Promise(() => undefined);
});
