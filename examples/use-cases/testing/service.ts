import { readFile } from 'node:fs/promises';
import path from 'node:path';
import {
  createLeaseholdCore,
  pgDatabase,
  type LeaseCoordinator,
  type LeaseholdCore,
  type PgTransaction,
} from '@leasehold/core';
import { connectionOf } from '@leasehold/service-kit';
import { createTestDatabase } from '@leasehold/testing';
import pg from 'pg';
import { onTestFinished } from 'vitest';

/** One process of a service that shares its database with Leasehold. */
export interface Service {
  readonly pool: pg.Pool;
  readonly core: LeaseholdCore<PgTransaction>;
  readonly coordinator: LeaseCoordinator<PgTransaction>;
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
  const pool = openPool(databaseUrl);
  onTestFinished(() => pool.end());
  const core = createLeaseholdCore({ database: pgDatabase(pool) });
  return {
    pool,
    core,
    coordinator: core.coordinator({ holder, principal: 'service' }),
    databaseUrl,
  };
}

/** The connections of a service, which search its own tables. */
export function openPool(databaseUrl: string): pg.Pool {
  return new pg.Pool({ connectionString: databaseUrl, options: '-c search_path=public' });
}

/** Runs statements on the tables of the service, as another client of the database would. */
export function runSql<Row extends pg.QueryResultRow>(
  databaseUrl: string,
  text: string,
  values?: unknown[],
): Promise<Row[]> {
  return runOnce({ connectionString: databaseUrl, options: '-c search_path=public' }, text, values);
}

/** Runs a statement on Leasehold's tables. */
export function runOurSql<Row extends pg.QueryResultRow>(
  databaseUrl: string,
  text: string,
): Promise<Row[]> {
  return runOnce(connectionOf(databaseUrl), text);
}

async function runOnce<Row extends pg.QueryResultRow>(
  connection: pg.ClientConfig,
  text: string,
  values?: unknown[],
): Promise<Row[]> {
  const client = new pg.Client(connection);
  await client.connect();
  try {
    return (await client.query<Row>(text, values)).rows;
  } finally {
    await client.end();
  }
}

/** Makes every lease that is held expire, as if its holder had not answered for long. */
export async function letLeasesExpire({ databaseUrl }: Service): Promise<void> {
  await runOurSql(
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
