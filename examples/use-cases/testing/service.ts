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
  /** Starts another process of the same service. */
  readonly join: (holder: string) => Service;
  /** Runs statements on the tables of the service, as another client of the database would. */
  readonly sql: <Row extends pg.QueryResultRow>(text: string, values?: unknown[]) => Promise<Row[]>;
  /** Runs a statement on Leasehold's tables. */
  readonly ourSql: <Row extends pg.QueryResultRow>(text: string) => Promise<Row[]>;
  /** Makes every lease that is held expire, as if its holder had not answered for long. */
  readonly letLeasesExpire: () => Promise<unknown>;
}

/** The first process of a service, on a database of its own with these tables. */
export async function startService(tables: string): Promise<Service> {
  const database = await createTestDatabase();
  const service = joinService(database.url, 'first');
  await service.sql(await readFile(path.join(import.meta.dirname, '..', tables), 'utf8'));
  return service;
}

/** A process of a service, on a database that has its tables. */
export function joinService(databaseUrl: string, holder: string): Service {
  const pool = openPool(databaseUrl);
  onTestFinished(() => pool.end());
  const core = createLeaseholdCore({ database: pgDatabase(pool) });
  return {
    pool,
    core,
    coordinator: core.coordinator({ holder, principal: 'service' }),
    databaseUrl,
    join: (another) => joinService(databaseUrl, another),
    sql: (text, values) => runOnce(ownConnection(databaseUrl), text, values),
    ourSql: (text) => runOnce(connectionOf(databaseUrl), text),
    letLeasesExpire: () => runOnce(connectionOf(databaseUrl), EXPIRE),
  };
}

const EXPIRE = `update lease set granted_at = granted_at - interval '1 hour',
    renewed_at = renewed_at - interval '1 hour', expires_at = expires_at - interval '1 hour'
  where end_reason is null`;

/** The connections of a service, which search its own tables. */
export function openPool(databaseUrl: string): pg.Pool {
  return new pg.Pool(ownConnection(databaseUrl));
}

function ownConnection(databaseUrl: string): pg.ClientConfig {
  return { connectionString: databaseUrl, options: '-c search_path=public' };
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

/** A gate that a test opens. */
export function aGate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}
