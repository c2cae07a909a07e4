import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { LeaseError } from '../kernel/errors.ts';
import { readMigrations, type MigrationFiles } from './migrate/migration-files.ts';
import { withSchemaEngine } from './migrate/schema-engine.ts';

export { createDatabase } from './migrate/create-database.ts';
export { findMigrationsDir } from './migrate/migration-files.ts';

/** Which migrations a database has, against those that this version brings. */
export interface MigrationStatus {
  readonly applied: readonly string[];
  /** Brought by this version, and not applied yet. */
  readonly pending: readonly string[];
  /** Begun and neither ended nor rolled back. */
  readonly unfinished: readonly string[];
  /** Applied, and not known to this version: the database belongs to a newer one. */
  readonly unknown: readonly string[];
}

/** Any number that nothing else of ours locks. */
const MIGRATION_LOCK = 4_600_001;
/** Waiting for the turn delays nobody; a migration takes seconds. */
const TURN_WAIT_MS = 60_000;
/**
 * A migration that waits for a table's lock makes every renewal wait behind it. So it waits for a
 * second at most, lets those that queue behind it pass, and tries again.
 */
const LOCK_TIMEOUT_MS = 1_000;
const LOCK_TRIES_MAX = 30;
const LOCK_RETRY_MS = 500;
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * Brings the database to the schema of this version, with the migrations of `migrationsDir` that it
 * does not have yet. Safe to repeat, and beside others that do the same: one works, the others wait
 * and find nothing to do. Writes the table that `prisma migrate deploy` writes.
 *
 * The turn is a lock of a transaction, not of a session, on a connection of its own: a pooler may be
 * between us and the database.
 *
 * @throws {LeaseError} store.unavailable when the database cannot be reached, or tables stay locked.
 */
export async function migrate(
  databaseUrl: string,
  migrationsDir: string,
): Promise<{ applied: string[] }> {
  const files = await readMigrations(migrationsDir);
  return withClient(databaseUrl, async (client) => {
    if ((await statusOf(client, files)).pending.length === 0) return { applied: [] };
    await client.query('begin');
    try {
      await client.query(`set local lock_timeout = ${String(TURN_WAIT_MS)}`);
      await client.query('set local idle_in_transaction_session_timeout = 0');
      await client.query('select pg_advisory_xact_lock($1)', [MIGRATION_LOCK]);
      return { applied: await applyPending(client, databaseUrl, files) };
    } finally {
      await client.query('rollback');
    }
  });
}

/** What {@link migrate} would find. Changes nothing. */
export async function migrationStatus(
  databaseUrl: string,
  migrationsDir: string,
): Promise<MigrationStatus> {
  const files = await readMigrations(migrationsDir);
  return withClient(databaseUrl, (client) => statusOf(client, files));
}

async function applyPending(
  turn: pg.Client,
  databaseUrl: string,
  files: MigrationFiles,
): Promise<string[]> {
  const before = await statusOf(turn, files);
  if (before.pending.length === 0) return [];
  const { baseDir, lockfile, migrationDirectories } = files;
  const input = {
    migrationsList: { baseDir, lockfile, migrationDirectories, shadowDbInitScript: '' },
    filters: { externalTables: [], externalEnums: [] },
  };
  return withSchemaEngine({ databaseUrl, lockTimeoutMs: LOCK_TIMEOUT_MS }, async (engine) => {
    // Each migration is one transaction, and this is our turn: one that was begun and not ended was
    // cut off, and the database has taken it back.
    for (const migrationName of before.unfinished) {
      await engine.markMigrationRolledBack({ migrationName });
    }
    for (let tries = 1; ; tries++) {
      try {
        await engine.applyMigrations(input);
        const after = await statusOf(turn, files);
        return after.applied.filter((name) => !before.applied.includes(name));
      } catch (cause) {
        if (!isLockTimeout(cause)) throw migrationFailed(cause);
        for (const migrationName of (await statusOf(turn, files)).unfinished) {
          await engine.markMigrationRolledBack({ migrationName });
        }
        if (tries >= LOCK_TRIES_MAX) throw stillLocked(cause);
        await sleep(LOCK_RETRY_MS);
      }
    }
  });
}

async function statusOf(client: pg.Client, files: MigrationFiles): Promise<MigrationStatus> {
  // Not by to_regclass: in one transaction it goes on saying what it said the first time.
  const table = await client.query<{ found: boolean }>(
    `select exists (
       select from pg_class
       where relname = '_prisma_migrations' and relnamespace = current_schema()::regnamespace
     ) as found`,
  );
  const rows = table.rows[0]?.found
    ? await client.query<{ name: string; finished: boolean }>(
        `select migration_name as name, bool_or(finished_at is not null) as finished
         from _prisma_migrations
         where rolled_back_at is null
         group by migration_name
         order by migration_name`,
      )
    : { rows: [] };
  const applied = rows.rows.filter((row) => row.finished).map((row) => row.name);
  return {
    applied,
    pending: files.names.filter((name) => !applied.includes(name)),
    unfinished: rows.rows.filter((row) => !row.finished).map((row) => row.name),
    unknown: applied.filter((name) => !files.names.includes(name)),
  };
}

async function withClient<T>(
  databaseUrl: string,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = new pg.Client({
    connectionString: databaseUrl,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  // A connection that breaks while it is idle has nobody else to tell.
  client.on('error', () => undefined);
  try {
    await client.connect();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new LeaseError('store.unavailable', `The database cannot be reached: ${reason}`, {
      cause,
    });
  }
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

function isLockTimeout(error: unknown): boolean {
  return /55P03|lock timeout/.test(describe(error));
}

function describe(error: unknown): string {
  return error instanceof Error ? `${error.message} ${JSON.stringify(error)}` : String(error);
}

function stillLocked(cause: unknown): LeaseError {
  return new LeaseError(
    'store.unavailable',
    'The migrations could not be applied: a table stayed locked by another transaction. Nothing has changed; try again when it has ended.',
    { cause },
  );
}

function migrationFailed(cause: unknown): LeaseError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new LeaseError('internal.error', `A migration could not be applied: ${reason}`, { cause });
}
