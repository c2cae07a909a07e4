/**
 * Installations of earlier versions, whose tables are in the schema that their connections searched
 * first, mostly `public`, beside a table `_prisma_migrations`.
 *
 * They are moved, once, into the schema of this version: each object by its name, as far as the
 * history says that its migration made it, so that nothing of another application is touched. The rows of
 * `_prisma_migrations` stay: an earlier version that is started again finds nothing to apply there,
 * and fails at the first table that it misses, instead of making a second, empty set of tables.
 */
import pg from 'pg';
import { noteApplied } from './migration-history.ts';

const FORMER_HISTORY = '_prisma_migrations';

interface Objects {
  readonly tables: readonly string[];
  readonly functions?: readonly string[];
}

/** What each migration of those earlier versions made. */
const OBJECTS: Readonly<Record<string, Objects>> = {
  '20261120000000_kernel': {
    tables: [
      ...['api_token', 'audit', 'drone', 'backend', 'backend_state', 'backend_action'],
      ...['lease', 'lease_event', 'lease_request', 'lease_waiter', 'lease_reap', 'database_epoch'],
    ],
    functions: [
      'lease_unexpired(timestamptz, text, timestamptz)',
      'lease_takable(timestamptz, text, timestamptz, timestamptz)',
      'lease_is_within(text, jsonb)',
      'database_timeline()',
      'database_holds_off(timestamptz, text, integer)',
      'lease_next_token(bigint)',
    ],
  },
  '20261121000000_leases': {
    tables: ['lease_declaration'],
    functions: ['leasehold_assert_held(uuid, bigint)'],
  },
  '20261121000001_event_mark': {
    tables: ['lease_event_mark'],
    functions: ['lease_event_note_removed()', 'lease_event_note_truncated()'],
  },
  '20261122000000_people': {
    tables: [
      'person',
      'person_session',
      'person_account',
      'person_verification',
      'sign_in_failure',
    ],
  },
  '20261122000001_stats': { tables: ['stats_bucket', 'stats_cursor'] },
  '20261122000002_bulk': { tables: ['bulk', 'bulk_item'] },
  '20261122000003_drone_logs': { tables: [] },
  '20261122000004_people_hardening': { tables: [] },
  '20261123000000_reservations': {
    tables: [
      ...['reservation', 'reservation_home', 'reservation_pointer'],
      ...['reservation_datacenter', 'reservation_membership'],
    ],
  },
};
const [FIRST_MIGRATION = ''] = Object.keys(OBJECTS);

/** An installation of an earlier version. */
export interface FormerHome {
  readonly schema: string;
  readonly migrations: readonly { readonly name: string; readonly checksum: string }[];
}

/**
 * The installation of an earlier version in one of these schemas, if there is one.
 * @param schemas in the order in which they are searched.
 */
export async function findFormerHome(
  client: pg.ClientBase,
  schemas: readonly string[],
): Promise<FormerHome | undefined> {
  for (const schema of schemas) {
    const { rowCount } = await client.query(
      `select from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where n.nspname = $1 and c.relname in ($2, 'database_epoch')
       having count(*) = 2`,
      [schema, FORMER_HISTORY],
    );
    if (rowCount === 0) continue;
    const { rows } = await client.query<FormerHome['migrations'][number]>(
      `select migration_name as name, checksum
       from ${pg.escapeIdentifier(schema)}.${FORMER_HISTORY}
       where finished_at is not null and rolled_back_at is null and migration_name = any ($1)
       order by migration_name`,
      [Object.keys(OBJECTS)],
    );
    if (rows.some(({ name }) => name === FIRST_MIGRATION)) return { schema, migrations: rows };
  }
  return undefined;
}

/**
 * Moves an installation into `schema`, with what belongs to its tables: their indexes, sequences,
 * triggers and privileges. Writes its migrations into the history, which must exist.
 */
export async function moveHome(
  client: pg.ClientBase,
  from: FormerHome,
  schema: string,
): Promise<void> {
  for (const migration of from.migrations) {
    if (from.schema !== schema) {
      for (const statement of moves(OBJECTS[migration.name], from.schema, schema)) {
        await client.query(statement);
      }
    }
    await noteApplied(client, { ...migration, olderMayStart: false });
  }
}

function moves(objects: Objects | undefined, from: string, to: string): string[] {
  const [source, target] = [from, to].map((name) => pg.escapeIdentifier(name));
  const { tables = [], functions = [] } = objects ?? {};
  return [
    ...tables.map((name) => `alter table ${String(source)}.${name} set schema ${String(target)}`),
    ...functions.map(
      (name) => `alter function ${String(source)}.${name} set schema ${String(target)}`,
    ),
  ];
}
