import { connectionOf } from '@leasehold/service-kit/database-url';
import pg from 'pg';
import { waitUntil } from '../wait-until.ts';

/** A copy of a database as it was at one moment. */
export interface DatabaseCopy {
  /**
   * Waits until a controller has seen the database further than the copy. In a cluster that goes on, only
   * that shows that one of its databases has gone back: the position of the log does not.
   */
  untilPassed(): Promise<void>;
  /** Puts the copy in the place of the database: from now on that is as it was when the copy was made. */
  putBack(): Promise<void>;
}

/**
 * Copies a database, as a snapshot of its storage would. Sessions in it are ended, now and when the copy is
 * put back: a controller connects again, and finds an earlier state.
 */
export async function copyDatabase(databaseUrl: string): Promise<DatabaseCopy> {
  const url = new URL(databaseUrl);
  const name = url.pathname.slice(1);
  const original = pg.escapeIdentifier(name);
  const copy = pg.escapeIdentifier(`${name}_copy`);
  url.pathname = '/postgres';

  const administer = async (...statements: readonly string[]): Promise<void> => {
    const client = new pg.Client({ connectionString: url.href });
    await client.connect();
    try {
      for (const statement of statements) await client.query(statement);
    } finally {
      await client.end();
    }
  };
  const closed = [
    `alter database ${original} with allow_connections false`,
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = ${pg.escapeLiteral(name)}`,
  ];
  await administer(
    ...closed,
    `create database ${copy} template ${original} strategy file_copy`,
    `alter database ${original} with allow_connections true`,
  );
  const beatAtCopy = await newestBeat(databaseUrl);
  return {
    async untilPassed() {
      // Two beats, because it learns of the first a moment after that was written.
      await waitUntil(async () => (await newestBeat(databaseUrl)) > beatAtCopy + 1);
    },
    putBack: () =>
      administer(
        ...closed,
        `drop database ${original} with (force)`,
        `alter database ${copy} rename to ${original}`,
      ),
  };
}

async function newestBeat(databaseUrl: string): Promise<number> {
  const client = new pg.Client(connectionOf(databaseUrl));
  await client.connect();
  try {
    const { rows } = await client.query<{ beat: number }>(
      'select coalesce(max(beat), 0)::int as beat from database_witness',
    );
    return rows[0]?.beat ?? 0;
  } finally {
    await client.end();
  }
}
