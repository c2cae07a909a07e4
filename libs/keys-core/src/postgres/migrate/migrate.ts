/**
 * Brings a database to the schema of this version: plain SQL, a file for each migration, and a table
 * in our own schema that records which were applied.
 *
 * Each migration is one transaction, together with the row that records it: it is applied as a whole or
 * not at all. The transaction holds an advisory lock for the schema, so that only one of several that start
 * at once works; the others wait and find nothing to do. The lock belongs to the transaction and
 * not to the session: a pooler may be between us and the database.
 */
import type pg from 'pg';
import { LeaseError } from '../../kernel/errors.ts';
import { readMigrations, type Migration } from './migration-files.ts';
import { inTurn, withClient } from './migration-connection.ts';
import { isLockTimeout, migrationFailure } from './migration-failure.ts';
import { noteApplied, readHistory, type AppliedMigration } from './migration-history.ts';
import { makeHome } from './own-schema.ts';

export { createDatabase } from './create-database.ts';
export { findMigrationsDir } from './migration-files.ts';

/** Which migrations a database has, compared with those of this version. */
export interface MigrationStatus {
  readonly schema: string;
  readonly applied: readonly string[];
  /** Part of this version, and not applied yet. */
  readonly pending: readonly string[];
  /** Of a newer version, with which this one must not be started. */
  readonly newer: readonly string[];
  /** Applied, but with a text that differs from that of this version, or older than its first migration. */
  readonly changed: readonly string[];
}

/**
 * Brings the schema that `databaseUrl` names to this version, with the migrations of `migrationsDir`
 * that it does not have yet; makes the schema if it is missing. Safe to repeat, and to run beside
 * others that do the same.
 *
 * @throws {LeaseError} `store.unavailable` when the database cannot be reached, or tables stay locked;
 * `store.not_permitted` when the role may not do it; `store.schema_foreign`, `store.schema_newer` and
 * `store.schema_changed` when the schema is not one for this version. Nothing was changed then, except
 * for migrations that were applied before the one that failed.
 */
export async function migrate(
  databaseUrl: string,
  migrationsDir: string,
): Promise<{ applied: string[] }> {
  const migrations = await readMigrations(migrationsDir);
  const applied: string[] = [];
  await withClient(databaseUrl, async (client, schema) => {
    const history = await readHistory(client, schema);
    if (history === undefined) {
      await inTurn(client, schema, () => makeHome(client, schema));
    } else if (isDone(statusOf(schema, history, migrations))) return;
    for (;;) {
      const name = await inTurn(client, schema, () => applyNext(client, schema, migrations));
      if (name === undefined) break;
      applied.push(name);
    }
  });
  return { applied };
}

/** What {@link migrate} would find. Changes nothing. */
export async function migrationStatus(
  databaseUrl: string,
  migrationsDir: string,
): Promise<MigrationStatus> {
  const migrations = await readMigrations(migrationsDir);
  return withClient(databaseUrl, async (client, schema) =>
    statusOf(schema, (await readHistory(client, schema)) ?? [], migrations),
  );
}

/** A migration that {@link migrate} would apply. */
export type PlannedMigration = Pick<Migration, 'name' | 'olderMayStart' | 'notes' | 'sql'>;

/**
 * What {@link migrate} would do, in order. Changes nothing.
 * @throws {LeaseError} as {@link migrate} does.
 */
export async function planMigration(
  databaseUrl: string,
  migrationsDir: string,
): Promise<{ schema: string; planned: PlannedMigration[] }> {
  const migrations = await readMigrations(migrationsDir);
  const status = await migrationStatus(databaseUrl, migrationsDir);
  if (isDone(status)) return { schema: status.schema, planned: [] };
  const pending = new Set(status.pending);
  const planned = migrations
    .filter(({ name }) => pending.has(name))
    .map(({ name, olderMayStart, notes, sql }) => ({ name, olderMayStart, notes, sql }));
  return { schema: status.schema, planned };
}

function statusOf(
  schema: string,
  history: readonly AppliedMigration[],
  migrations: readonly Migration[],
): MigrationStatus {
  const applied = new Map(history.map((one) => [one.name, one]));
  const known = new Set(migrations.map(({ name }) => name));
  const unknown = history.filter(({ name }) => !known.has(name));
  const first = migrations[0]?.name ?? '';
  return {
    schema,
    applied: [...applied.keys()],
    pending: migrations.filter(({ name }) => !applied.has(name)).map(({ name }) => name),
    newer: unknown
      .filter(({ name, olderMayStart }) => name > first && !olderMayStart)
      .map(({ name }) => name),
    changed: [
      ...unknown.filter(({ name }) => name < first),
      ...migrations.filter(
        ({ name, checksum }) => (applied.get(name)?.checksum ?? checksum) !== checksum,
      ),
    ].map(({ name }) => name),
  };
}

const CHANGED_SHOWN_MAX = 5;

/** @throws {LeaseError} when the schema is not one for this version. */
function isDone({ schema, pending, newer, changed }: MigrationStatus): boolean {
  if (newer.length > 0) {
    throw new LeaseError(
      'store.schema_newer',
      `The schema "${schema}" was migrated by a newer version of Leasehold, with which this one must not be started: ${newer.join(', ')}.`,
      { details: { schema, newer } },
    );
  }
  if (changed.length > 0) {
    const shown = changed.slice(0, CHANGED_SHOWN_MAX).join(', ');
    throw new LeaseError(
      'store.schema_changed',
      `The schema "${schema}" was made by migrations that differ from those of this version: ${shown}. A schema from before the first release cannot be used: name an empty one in LEASEHOLD_SCHEMA.`,
      { details: { schema, changed } },
    );
  }
  return pending.length === 0;
}

async function applyNext(client: pg.Client, schema: string, migrations: readonly Migration[]) {
  const status = statusOf(schema, (await readHistory(client, schema)) ?? [], migrations);
  if (isDone(status)) return undefined;
  const next = migrations.find(({ name }) => name === status.pending[0]);
  if (next === undefined) return undefined;
  try {
    await client.query(next.sql);
  } catch (cause) {
    throw isLockTimeout(cause) ? cause : migrationFailure(cause, next.name);
  }
  await noteApplied(client, next);
  return next.name;
}
