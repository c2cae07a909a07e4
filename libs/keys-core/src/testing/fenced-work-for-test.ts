/**
 * Takes a lease, begins fenced work under it that does not end, reports that it is ready, and waits.
 * Prints as JSON what became of the work and of the next attempt at it. Arguments: database URL, TTL in
 * milliseconds.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { createBootClock, systemIds } from '@leasehold/service-kit';
import { invariant, LeaseError } from '../kernel/errors.ts';
import { serviceLadder } from '../kernel/ladder.ts';
import { fencedTransaction } from '../grants/fenced-transaction.ts';
import { createLeaseStore } from '../grants/lease-store.ts';
import { openStore } from '../postgres/open-store.ts';

process.on('disconnect', () => process.exit(1));
const [, , databaseUrl = '', ttlMs = ''] = process.argv;
const clock = createBootClock();
const ids = systemIds();
const store = openStore({ databaseUrl, datacenter: 'local', clock, ids });
// The first statement of a process takes long, and must not use up the lease's time.
await store.guests.$queryRaw`select 1 as one`;
const outcome = await createLeaseStore(store).grant({
  face: 'lease',
  namespace: 'test',
  name: 'thing',
  leaseId: ids.uuid(),
  holder: 'worker',
  principal: 'token-a',
  tag: '',
  comment: null,
  metadata: null,
  ladder: serviceLadder(Number(ttlMs)),
  actor: 'worker',
});
invariant(outcome.outcome === 'granted', `the worker's lease is ${outcome.outcome}`);
const { leaseId, fencingToken, expiresAt } = outcome.grant;

async function attempt(): Promise<string> {
  try {
    await fencedTransaction(store, { leaseId, fencingToken }, async (tx) => {
      await tx.$executeRaw`insert into note (text) values ('guarded work')`;
      process.send?.({ type: 'ready', leaseId, expiresAt });
      await sleep(60_000, undefined, { ref: false });
    });
    return 'committed';
  } catch (error) {
    return error instanceof LeaseError ? error.code : String(error);
  }
}

const answers = [await attempt(), await attempt()];
process.stdout.write(`${JSON.stringify(answers)}\n`);
await store.close();
process.exit(0);
