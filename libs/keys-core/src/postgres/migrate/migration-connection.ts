import { setTimeout as sleep } from 'node:timers/promises';
import { connectionOf, searchPathOf } from '@leasehold/service-kit/database-url';
import { WITHOUT_TRANSACTION_TIMEOUT } from '@leasehold/service-kit/session-settings';
import pg from 'pg';
import { isLockTimeout, migrationFailure, stillLocked, unreachable } from './migration-failure.ts';

/** The first half of our advisory locks' key; the second is the schema. */
const MIGRATION_LOCK = 4_600_001;
/** Waiting for the turn delays nobody; a migration takes seconds. */
const TURN_WAIT_MS = 60_000;
/**
 * A migration that waits for a table's lock makes every renewal wait behind it. So it waits for a
 * second at most, lets those that queue behind it pass, and retries.
 */
const LOCK_TIMEOUT_MS = 1_000;
const LOCK_TRIES_MAX = 30;
const LOCK_RETRY_MS = 500;
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * Runs `work` in one transaction, while no other process migrates this schema, with unqualified names
 * referring to the schema. Waits for a locked table by retrying.
 */
export async function inTurn<T>(
  client: pg.Client,
  schema: string,
  work: () => Promise<T>,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    await client.query('begin');
    try {
      await client.query(
        `set local search_path = ${searchPathOf(schema)};
         set local statement_timeout = 0;
         set local idle_in_transaction_session_timeout = 0;
         set local lock_timeout = ${String(TURN_WAIT_MS)}`,
      );
      await client.query('select pg_advisory_xact_lock($1, hashtext($2))', [
        MIGRATION_LOCK,
        schema,
      ]);
      await client.query(`set local lock_timeout = ${String(LOCK_TIMEOUT_MS)}`);
      const result = await work();
      await client.query('commit');
      return result;
    } catch (cause) {
      // A broken connection has rolled it back already.
      await client.query('rollback').catch(() => undefined);
      if (!isLockTimeout(cause)) throw migrationFailure(cause);
      if (tries >= LOCK_TRIES_MAX) throw stillLocked(cause);
    }
    await sleep(LOCK_RETRY_MS);
  }
}

/** Calls `work` with a connection, and with the schema that the URL names. */
export async function withClient<T>(
  databaseUrl: string,
  work: (client: pg.Client, schema: string) => Promise<T>,
): Promise<T> {
  // Searches what the role does: an earlier version made its tables there.
  const { connectionString, options, schema, isPooled } = connectionOf(databaseUrl, {
    search_path: undefined,
  });
  const client = new pg.Client({
    connectionString,
    options,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  // Without a listener, an idle connection that breaks would end the process.
  client.on('error', () => undefined);
  try {
    await client.connect();
    if (!isPooled) await client.query(WITHOUT_TRANSACTION_TIMEOUT);
  } catch (cause) {
    throw unreachable(cause);
  }
  try {
    return await work(client, schema);
  } catch (cause) {
    throw migrationFailure(cause);
  } finally {
    await client.end();
  }
}
