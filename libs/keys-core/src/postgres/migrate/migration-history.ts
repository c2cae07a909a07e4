import pg from 'pg';
import packageJson from '../../../package.json' with { type: 'json' };
import type { Migration } from './migration-files.ts';

/** A migration that the database has. */
export type AppliedMigration = Omit<Migration, 'sql' | 'notes'>;

/** The table of our own migrations, in our own schema: no other tool writes or reads it. */
const TABLE = 'schema_migration';

/** The applied migrations, in the order of their names; undefined if there is no history of ours. */
export async function readHistory(
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
export async function createHistory(client: pg.ClientBase): Promise<void> {
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
export async function noteApplied(
  client: pg.ClientBase,
  migration: AppliedMigration,
): Promise<void> {
  const { name, checksum, olderMayStart } = migration;
  await client.query(
    `insert into ${TABLE} (name, checksum, applied_by, older_may_start) values ($1, $2, $3, $4)`,
    [name, checksum, packageJson.version, olderMayStart],
  );
}
