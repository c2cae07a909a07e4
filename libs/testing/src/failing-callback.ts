import { randomUUID } from 'node:crypto';
import {
  createLeaseCoordinator,
  createLeaseStore,
  createServiceStore,
  pgDatabase,
  type PgTransaction,
} from '@leasehold/keys-core/core';
import { connectionOf, createBootClock, systemIds } from '@leasehold/service-kit';
import pg from 'pg';
import { waitUntil } from './wait-until.ts';

/** The shortest that a lease can be. */
const TTL_MS = 1_000;

interface Failing {
  readonly namespace: readonly string[];
  readonly key: string;
  /** The message of what the callback throws. */
  readonly error: string;
}

/**
 * A service whose callback of an expired lease throws: it takes a lease on the same database as
 * Leasehold, lets it expire, and reaps until the callback has failed once.
 */
export async function failCallback(databaseUrl: string, failing: Failing): Promise<void> {
  const pool = new pg.Pool({ ...connectionOf(databaseUrl), max: 4 });
  try {
    await failOnce(pool, failing);
  } finally {
    await pool.end();
  }
}

async function failOnce(pool: pg.Pool, { namespace, key, error }: Failing): Promise<void> {
  const clock = createBootClock();
  const store = createServiceStore({
    database: pgDatabase(pool),
    schema: 'leasehold',
    clock,
    ids: systemIds(),
    onError: () => undefined,
  });
  const coordinator = createLeaseCoordinator<PgTransaction>({
    store,
    leases: createLeaseStore(store),
    holder: 'failing-service',
    principal: 'failing-service',
  });
  const id = randomUUID();
  const lease = {
    key: () => id,
    scope: () => ({ namespace, key }),
    durationMs: () => TTL_MS,
  };
  const { outcome } = await coordinator.acquire(lease, 0);
  if (outcome !== 'granted') throw new Error(`${key} is ${outcome}`);
  await waitUntil(
    async () => {
      const reaped = await coordinator.reapStaleLeases([namespace], false, () => {
        throw new Error(error);
      });
      return reaped.failedCount === 1;
    },
    { what: 'the callback to fail', timeoutMs: 20_000 },
  );
}
