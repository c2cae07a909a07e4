import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Clock } from '@leasehold/keys-core';
import { createLeaseCoordinator, type LeaseCoordinator } from '@leasehold/keys-core/leases';
import { createLeaseStore, openStore, type Store } from '@leasehold/keys-core/store';
import { connectionOf, createBootClock, systemIds } from '@leasehold/service-kit';
import { createTestDatabase } from '@leasehold/testing';
import pg from 'pg';
import { onTestFinished } from 'vitest';

/** One process of a service that shares its database with Leasehold. */
export interface Service {
  readonly clock: Clock;
  readonly store: Store;
  readonly coordinator: LeaseCoordinator;
  readonly databaseUrl: string;
}

/** The first process of a service, on a database of its own with these tables. */
export async function startService(tables: string): Promise<Service> {
  const database = await createTestDatabase();
  await runSql(database.url, await readFile(path.join(import.meta.dirname, '..', tables), 'utf8'));
  return joinService(database.url, 'first');
}

/** Another process of the same service. */
export function joinService(databaseUrl: string, holder: string): Service {
  const clock = createBootClock();
  const store = openStore({ databaseUrl, datacenter: 'local', clock, ids: systemIds() });
  onTestFinished(() => store.close());
  const leases = createLeaseStore(store);
  const coordinator = createLeaseCoordinator({ store, leases, holder, principal: 'service' });
  return { store, clock, coordinator, databaseUrl };
}

/** Runs statements as another client of the database would. */
export async function runSql<Row extends pg.QueryResultRow>(
  databaseUrl: string,
  text: string,
  values?: unknown[],
): Promise<Row[]> {
  const client = new pg.Client(connectionOf(databaseUrl));
  await client.connect();
  try {
    return (await client.query<Row>(text, values)).rows;
  } finally {
    await client.end();
  }
}

/** Makes every lease that is held expire, as if its holder had not been heard from for long. */
export async function letLeasesExpire({ databaseUrl }: Service): Promise<void> {
  await runSql(
    databaseUrl,
    `update lease set granted_at = granted_at - interval '1 hour',
       renewed_at = renewed_at - interval '1 hour', expires_at = expires_at - interval '1 hour'
     where end_reason is null`,
  );
}

/** A gate that a test opens. */
export function aGate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}
