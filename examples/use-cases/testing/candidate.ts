/** A controller that runs for leader, as a process of its own: `candidate.ts DATABASE_URL ADDRESS TTL_MS`. */
import { createLeaseCoordinator } from '@leasehold/keys-core/leases';
import { createLeaseStore, openStore } from '@leasehold/keys-core/store';
import { createBootClock, systemIds } from '@leasehold/service-kit';
import { runForLeader } from '../leader.ts';

const [databaseUrl = '', address = '', ttlMs = ''] = process.argv.slice(2);
const clock = createBootClock();
const store = openStore({ databaseUrl, datacenter: 'local', clock, ids: systemIds() });
const leases = createLeaseStore(store);

const running = new AbortController();
process.once('SIGTERM', () => {
  running.abort();
});
process.once('disconnect', () => {
  process.exit(1);
});

process.send?.({ type: 'ready' });
await runForLeader(
  {
    coordinator: createLeaseCoordinator({ store, leases, holder: address, principal: 'service' }),
    clock,
    ttlMs: Number(ttlMs),
    lead: () => undefined,
    follow: () => undefined,
  },
  running.signal,
);
await store.close();
process.disconnect();
