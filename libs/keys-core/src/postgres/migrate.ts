/**
 * Brings a database to the schema of this version: plain SQL, a file for each migration, and a table
 * in our own schema that records which were applied.
 *
 * Each migration is one transaction, together with the row that records it: it is applied as a whole or
 * not at all. The transaction holds an advisory lock for the schema, so that only one of several that start
 * at once works; the others wait and find nothing to do. The lock belongs to the transaction and
 * not to the session: a pooler may be between us and the database.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { connectionOf, searchPathOf } from '@leasehold/service-kit/database-url';
import { WITHOUT_TRANSACTION_TIMEOUT } from '@leasehold/service-kit/session-settings';
import packageJson from '../../package.json' with { type: 'json' };
import { LeaseError, messageOf } from '../kernel/errors.ts';
import { optionsRefusal } from './database-settings.ts';

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

/** One migration of this version. */
interface Migration {
  readonly name: string;
  readonly sql: string;
  /** SHA-256 of the file, in hexadecimal digits, as Prisma computes it too. */
  readonly checksum: string;
  /** Whether controllers that do not know it may be started on a database that has it. */
  readonly olderMayStart: boolean;
  /** What its header says: what it is for, and what running controllers of the previous version notice. */
  readonly notes: string;
}

const FILE = 'migration.sql';
const NAME = /^\d{14}_\w+$/u;
/** A line of its own in the file. A migration without it keeps older versions from starting. */
const OLDER_MAY_START = /^-- older versions may start$/mu;

/**
 * Where the migrations of this installation are: `prisma/migrations` in the nearest folder above
 * this code, which is the repository or an installed package, whether the code runs from its sources or
 * from a bundle.
 */
export function findMigrationsDir(from = path.dirname(fileURLToPath(import.meta.url))): string {
  for (let folder = from; ; folder = path.dirname(folder)) {
    const candidate = path.join(folder, 'prisma', 'migrations');
    if (existsSync(candidate)) return candidate;
    if (folder === path.dirname(folder)) break;
  }
  throw new LeaseError('config.invalid', `There is no folder prisma/migrations above ${from}.`);
}

/** Reads every migration of the folder, in the order in which they are applied. */
async function readMigrations(dir: string): Promise<Migration[]> {
  const entries = await readdir(dir, { withFileTypes: true });
  const names = entries
    .filter((entry) => entry.isDirectory() && NAME.test(entry.name))
    .map((entry) => entry.name)
    .sort();
  return Promise.all(
    names.map(async (name) => {
      const sql = await readFile(path.join(dir, name, FILE), 'utf8');
      const checksum = createHash('sha256').update(sql).digest('hex');
      return { name, sql, checksum, olderMayStart: OLDER_MAY_START.test(sql), notes: notesOf(sql) };
    }),
  );
}

/** The comment that a file begins with. */
function notesOf(sql: string): string {
  const [header = ''] = /^(?:--.*\n)*/u.exec(sql.trimStart()) ?? [];
  return header.replace(OLDER_MAY_START, '').replaceAll(/^-- ?/gmu, '').trim();
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

/** A migration that the database has. */
type AppliedMigration = Omit<Migration, 'sql' | 'notes'>;

/** The table of our own migrations, in our own schema: no other tool writes or reads it. */
const TABLE = 'schema_migration';

/** The applied migrations, in the order of their names; undefined if there is no history of ours. */
async function readHistory(
  client: pg.ClientBase,
  schema: string,
): Promise<AppliedMigration[] | undefined> {
  // Not by to_regclass: within one transaction it keeps returning its first answer.
  const { rowCount } = await client.query(
    `select from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = $1 and c.relname = $2`,
    [schema, TABLE],
  );
  if (rowCount === 0) return undefined;
  const { rows } = await client.query<AppliedMigration>(
    `select name, checksum, older_may_start as "olderMayStart"
     from ${pg.escapeIdentifier(schema)}.${TABLE}
     order by name`,
  );
  return rows;
}

/** Makes the table, in the schema that the transaction searches. */
async function createHistory(client: pg.ClientBase): Promise<void> {
  await client.query(
    `create table ${TABLE} (
       name text collate "C" primary key,
       checksum text not null,
       applied_at timestamptz(3) not null default clock_timestamp(),
       applied_by text not null,
       older_may_start boolean not null
     );
     comment on table ${TABLE} is 'The migrations that were applied to this schema.';
     comment on column ${TABLE}.checksum is 'SHA-256 of the file.';
     comment on column ${TABLE}.applied_by is 'The version of Leasehold that applied it.';
     comment on column ${TABLE}.older_may_start is 'Whether a version that does not know this migration may start.'`,
  );
}

/** Notes a migration as applied, in the schema that the transaction searches. */
async function noteApplied(client: pg.ClientBase, migration: AppliedMigration): Promise<void> {
  const { name, checksum, olderMayStart } = migration;
  await client.query(
    `insert into ${TABLE} (name, checksum, applied_by, older_may_start) values ($1, $2, $3, $4)`,
    [name, checksum, packageJson.version, olderMayStart],
  );
}

/** Makes the schema, unless it is there and empty, and its history. */
async function makeHome(client: pg.ClientBase, schema: string): Promise<void> {
  if ((await readHistory(client, schema)) !== undefined) return;
  const objects = await objectsIn(client, schema);
  if (objects === undefined) {
    await client.query(`create schema ${pg.escapeIdentifier(schema)}`);
  } else if (objects.length > 0) {
    throw foreignSchema(schema, objects);
  }
  await createHistory(client);
}

const OBJECTS_SHOWN_MAX = 5;

/**
 * The first few tables, views and sequences of a schema, except for those of extensions; undefined when
 * there is no such schema.
 */
async function objectsIn(client: pg.ClientBase, schema: string): Promise<string[] | undefined> {
  const { rows } = await client.query<{ name: string | null }>(
    `select c.relname as name
     from pg_namespace n
     left join pg_class c on c.relnamespace = n.oid and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
       and not exists (
         select from pg_depend d
         where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'
       )
     where n.nspname = $1
     order by c.relname
     limit $2`,
    [schema, OBJECTS_SHOWN_MAX],
  );
  if (rows.length === 0) return undefined;
  return rows.map(({ name }) => name).filter((name) => name !== null);
}

function foreignSchema(schema: string, objects: readonly string[]): LeaseError {
  return new LeaseError(
    'store.schema_foreign',
    `The schema "${schema}" contains tables of another application (${objects.join(', ')}): name an empty one, or one that does not exist, in LEASEHOLD_SCHEMA.`,
    { details: { schema, objects } },
  );
}

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
async function inTurn<T>(client: pg.Client, schema: string, work: () => Promise<T>): Promise<T> {
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
async function withClient<T>(
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

const LOCK_NOT_AVAILABLE = '55P03';
const INSUFFICIENT_PRIVILEGE = '42501';
/** Of connections that broke, and of a server that stops. */
const UNAVAILABLE = /^(?:08|57P0)/u;

function isLockTimeout(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === LOCK_NOT_AVAILABLE;
}

/** What a failed statement of a migration means to an operator. A `LeaseError` stays as it is. */
function migrationFailure(cause: unknown, name?: string): LeaseError {
  if (cause instanceof LeaseError) return cause;
  // If it is not an error of the database, the connection has failed.
  if (!(cause instanceof pg.DatabaseError)) return unreachable(cause);
  const { message, code = '' } = cause;
  if (code === INSUFFICIENT_PRIVILEGE) {
    return new LeaseError(
      'store.not_permitted',
      `The role of DATABASE_URL may not migrate the database (${message}). Run \`leasehold migrate\` as the owner of the schema, or see "Database roles" in docs/operate/postgresql.md.`,
      { cause },
    );
  }
  if (UNAVAILABLE.test(code)) return unreachable(cause);
  const which = name === undefined ? 'A migration' : `The migration ${name}`;
  return new LeaseError('internal.error', `${which} could not be applied: ${message}`, { cause });
}

function unreachable(cause: unknown): LeaseError {
  const reason = optionsRefusal(cause) ?? messageOf(cause);
  return new LeaseError('store.unavailable', `The database cannot be reached: ${reason}`, {
    cause,
  });
}

function stillLocked(cause: unknown): LeaseError {
  return new LeaseError(
    'store.unavailable',
    'The migrations could not be applied: a table stayed locked by another transaction. Try again when it has ended; what was applied before stays.',
    { cause },
  );
}

const DUPLICATE_DATABASE = '42P04';
const UNIQUE_VIOLATION = '23505';

/**
 * Creates the database that `databaseUrl` names, if it is missing, as a copy of `template` if given.
 * Safe when others create the same one at the same time. @returns whether it was created.
 */
export async function createDatabase(databaseUrl: string, template?: string): Promise<boolean> {
  const url = new URL(databaseUrl);
  const name = decodeURIComponent(url.pathname.slice(1));
  url.pathname = '/postgres';
  const client = new pg.Client(connectionOf(url.href));
  await client.connect();
  try {
    const found = await client.query('select 1 from pg_database where datname = $1', [name]);
    if (found.rowCount) return false;
    const from = template === undefined ? '' : ` template ${pg.escapeIdentifier(template)}`;
    await client.query(`create database ${pg.escapeIdentifier(name)}${from}`);
    return true;
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === DUPLICATE_DATABASE || code === UNIQUE_VIOLATION) return false;
    throw error;
  } finally {
    await client.end();
  }
}
