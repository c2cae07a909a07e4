/** Rows that have been there for longer than anything is kept, of every kind that is removed. */
import type { Store } from '@leasehold/keys-core/postgres';

/** How often the local clock is read for each statement that removes rows. */
export const READS_PER_STATEMENT = 3;

/** A watch that has never seen the database's clock step: the local one of these tests is not a clock. */
export const LONG_WATCHED: Pick<Store['clockWatch'], 'observe' | 'belief'> = {
  observe: () => undefined,
  belief: () => ({ until: Infinity, watchedSince: 0, settledUntil: 0 }),
};

/** A table, and the values of those columns that have to be something definite. */
type Fed = readonly [table: string, values?: Readonly<Record<string, string>>];

/**
 * What callers, drones, gateways and people leave behind, by the kind under which it is removed. All instants are `old`.
 */
const FED: Readonly<Record<string, Fed>> = {
  events: ['lease_event', { face: `'lease'`, kind: `'granted'` }],
  callbacks: ['lease_reap', { face: `'lease'` }],
  waits: ['lease_wait', { face: `'lease'`, outcome: `'granted'` }],
  superseding: ['environment_superseding', { priority: '0' }],
  tickets: ['lease_waiter', { face: `'lease'` }],
  actions: ['backend_action', { kind: `'spawn'`, acked_at: 'old' }],
  'key failures': ['key_failure'],
  backends: ['backend', { status: `'terminated'`, status_rank: '9' }],
  audit: ['audit', { role: `'admin'` }],
  'gateway keys': ['gateway_key', { retired_at: 'old', until: 'old' }],
  'gateway starts': ['gateway_start'],
  'gateway revocations': ['gateway_revocation', { name: 'i::text' }],
  gateways: ['gateway'],
  'gateway uses': ['gateway_use'],
  witnesses: ['database_witness'],
  'clock jumps': ['clock_jump'],
  'bulk items': [
    'bulk_item',
    { bulk_id: '(select id from bulk order by started_at desc limit 1)' },
  ],
  'bulk actions': ['bulk', { action: `'revoke'`, state: `'done'`, ended_at: 'old' }],
  statistics: ['stats_bucket', { face: `'lease'`, bucket_at: `old - i * interval '1 second'` }],
  'refused renewals': ['refused_renewal'],
  refusals: ['refusal', { face: `'lease'` }],
  sessions: ['person_session', { person_id: '(select id from person limit 1)' }],
  'sign-in failures': ['sign_in_failure'],
  verifications: ['person_verification'],
  declarations: ['lease_declaration', { ttl_ms: '60000' }],
  freezes: [
    'environment_freeze',
    { window_until: `old + interval '1 second'`, pass_roles: `'{}'`, pass_people: `'{}'` },
  ],
};

/** What a row of these refers to. */
const BEFORE: Readonly<Record<string, Fed>> = {
  'bulk items': ['bulk', { action: `'revoke'`, state: `'done'`, ended_at: 'old' }],
  sessions: ['person', { role: `'viewer'` }],
};

const VALUE_OF_TYPE: Readonly<Record<string, string>> = {
  text: 'i::text',
  uuid: 'gen_random_uuid()',
  bigint: 'i',
  integer: 'i',
  'double precision': 'i',
  boolean: 'false',
  jsonb: `'{}'`,
  ARRAY: `'{}'`,
};

/** The kinds of rows that are removed. */
export const OLD_KINDS = Object.keys(FED);

function fedOf(kind: string): Fed {
  const fed = FED[kind];
  if (fed === undefined) throw new Error(`nothing feeds ${kind}`);
  return fed;
}

/** Inserts so many rows of two months ago, numbered from `first`. */
export async function feed(
  { general }: Pick<Store, 'general'>,
  kind: string,
  { first = 1, count }: { readonly first?: number; readonly count: number },
): Promise<void> {
  const connection = await general.connections.connect();
  try {
    await connection.query('begin');
    const before = BEFORE[kind];
    if (before !== undefined) {
      await connection.query(await insertOf(connection, before), [first, first]);
    }
    const insert = await insertOf(connection, fedOf(kind));
    await connection.query(insert, [first, first + count - 1]);
    await connection.query('commit');
  } finally {
    connection.release();
  }
}

/** How many rows of a kind there are. */
export async function countRows(
  { general }: Pick<Store, 'general'>,
  kind: string,
): Promise<number> {
  const { rows } = await general.connections.query<{ count: number }>(
    `select count(*)::int as count from ${fedOf(kind)[0]}`,
  );
  return rows[0]?.count ?? NaN;
}

/** A statement that inserts rows from number $1 to $2; each column that may not be null has a value of its type. */
async function insertOf(
  connection: Pick<Store['general']['connections'], 'query'>,
  [table, values = {}]: Fed,
): Promise<string> {
  const { rows } = await connection.query<{ name: string; type: string; isNeeded: boolean }>(
    `select column_name as name, data_type as type,
        is_nullable = 'NO' and coalesce(column_default, 'clock_timestamp()') = 'clock_timestamp()' as "isNeeded"
      from information_schema.columns where table_schema = current_schema() and table_name = $1`,
    [table],
  );
  const columns = rows.filter(({ name, isNeeded }) => isNeeded || name in values);
  const valueOf = (name: string, type: string): string =>
    values[name] ?? (type.startsWith('timestamp') ? 'old' : String(VALUE_OF_TYPE[type]));
  return `
    insert into ${table} (${columns.map(({ name }) => name).join()})
    select ${columns.map(({ name, type }) => valueOf(name, type)).join()}
    from generate_series($1::int, $2::int) i, (select clock_timestamp() - interval '60 days' as old) o`;
}
