import { randomBytes } from 'node:crypto';
import { connectionOf } from '@leasehold/service-kit/database-url';
import pg from 'pg';
import { inject, onTestFinished } from 'vitest';
import { createDatabase } from '../postgres/migrate.ts';

/** A database that nobody has migrated, removed when the test ends. */
export interface EmptyDatabase {
  readonly name: string;
  readonly url: string;
  /** Runs a statement in another database, as the superuser. */
  administrate(text: string): Promise<Row[]>;
  /** Runs a statement in this way after the database was dropped. */
  dropLater(text: string): void;
}

type Row = Record<string, unknown>;

export async function openEmptyDatabase(): Promise<EmptyDatabase> {
  const clusterUrl = inject('clusterUrl');
  const name = `empty_${randomBytes(6).toString('hex')}`;
  const url = new URL(clusterUrl);
  url.pathname = `/${name}`;
  const administrate = (text: string): Promise<Row[]> => runSql(clusterUrl, text);
  const ending = [`drop database ${name} with (force)`];
  onTestFinished(async () => {
    for (const text of ending) await administrate(text);
  });
  await createDatabase(url.href);
  return { name, url: url.href, administrate, dropLater: (text) => void ending.push(text) };
}

/** Runs each text, and answers with the rows of the last statement. */
export async function runSql(databaseUrl: string, ...texts: string[]): Promise<Row[]> {
  const client = new pg.Client(connectionOf(databaseUrl));
  await client.connect();
  try {
    let rows: Row[] = [];
    for (const text of texts) {
      const results: unknown = await client.query<Row>(text);
      const last = (Array.isArray(results) ? results.at(-1) : results) as pg.QueryResult<Row>;
      rows = last.rows;
    }
    return rows;
  } finally {
    await client.end();
  }
}
