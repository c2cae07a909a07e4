import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { connectionOf } from '@leasehold/service-kit/database-url';
import { MEANING_SETTINGS } from '@leasehold/service-kit/session-settings';
import { sqlStateOf } from './database-errors.ts';
import { STATEMENT_TIMEOUT_MS } from './pool.ts';
import { readClock } from './records.ts';
import { onlyRow, type Sql } from './sql.ts';

/** What the promises depend on and an administrator may have changed. */
export interface DatabaseSettings {
  readonly version: string;
  readonly versionNumber: number;
  readonly synchronousCommit: string;
  readonly synchronousStandbyNames: string;
  readonly standbyCount: number;
  /** The schema that unqualified table names refer to; null without any. */
  readonly schema: string | null;
  readonly role: string;
  /** After how long the server cancels a statement of these connections, in milliseconds; 0 for never. */
  readonly statementTimeoutMs: number;
  /** After how long it ends a session that does nothing in its transaction, in milliseconds; 0 for never. */
  readonly idleTimeoutMs: number;
  /** Of transactions that do not ask for another one. */
  readonly isolation: string;
  /** Whether it refuses to write: it is a standby, or somebody has set it so. */
  readonly isReadOnly: boolean;
  /** The settings of the session by which statements and their values are read. */
  readonly meaning: Readonly<Record<string, string>>;
  /** Tables and sequences in that schema that this role may not use. */
  readonly refused: readonly string[];
}

/** What a setting must be, where it need not be exactly what connections without a pooler set. */
const OTHERS: Readonly<Record<string, RegExp>> = {
  DateStyle: /^ISO,/u,
  TimeZone: /./u,
  extra_float_digits: /^[123]$/u,
  // Judged by itself.
  synchronous_commit: /./u,
};
/** What each setting must be. */
const NEEDED: Readonly<Record<string, RegExp>> = {
  ...Object.fromEntries(
    Object.entries(MEANING_SETTINGS).map(([name, value]) => [name, new RegExp(`^${value}$`, 'u')]),
  ),
  ...OTHERS,
  // In milliseconds, from PostgreSQL 17 on: the longest statement has 10 s.
  transaction_timeout: /^0$|^\d{5,}$/u,
};
/** Decides whether triggers run. Only a superuser may set it, so that no connection of ours does. */
const TRIGGERS = 'session_replication_role';

/** Reads the settings of the database that the kernel depends on. */
export async function readDatabaseSettings(sql: Sql<'general'>): Promise<DatabaseSettings> {
  const rows = await sql.$queryRaw<DatabaseSettings[]>`
    select
      current_setting('server_version') as version,
      current_setting('server_version_num')::int as "versionNumber",
      current_setting('synchronous_commit') as "synchronousCommit",
      current_setting('synchronous_standby_names') as "synchronousStandbyNames",
      (select count(*)::int from pg_stat_replication) as "standbyCount",
      current_schema()::text as schema,
      current_user::text as role,
      (select setting::float8 from pg_settings where name = 'statement_timeout')
        as "statementTimeoutMs",
      (select setting::float8 from pg_settings where name = 'idle_in_transaction_session_timeout')
        as "idleTimeoutMs",
      current_setting('default_transaction_isolation') as isolation,
      current_setting('transaction_read_only') = 'on' as "isReadOnly",
      (
        select jsonb_object_agg(name, setting) from pg_settings
        where name = any (${[...Object.keys(NEEDED), TRIGGERS]}::text[])
      ) as meaning,
      array(
        select c.relname::text
        from pg_class c
        where c.relnamespace = current_schema()::regnamespace
          and case c.relkind
            when 'r' then c.relname <> 'schema_migration' and not (
              has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert')
              and has_table_privilege(c.oid, 'update') and has_table_privilege(c.oid, 'delete')
            )
            when 'S' then not has_sequence_privilege(c.oid, 'usage')
          end
        order by c.relname
      ) as refused`;
  return onlyRow(rows);
}

/** What keeps the statements of these connections from working as intended. */
export function connectionProblems(settings: DatabaseSettings, schema: string): string[] {
  if (settings.schema !== schema) {
    const found = settings.schema === null ? 'no schema at all' : `"${settings.schema}"`;
    return [
      `connections must search the schema "${schema}", and they search ${found}: either it is not there yet (run "leasehold migrate"), or the role ${settings.role} has no USAGE on it, or a pooler has dropped the connection options (then set search_path for the role, ${SEE_POOLERS})`,
    ];
  }
  const problems = sessionProblems(settings);
  const role = settings.meaning[TRIGGERS] ?? 'origin';
  if (role !== 'origin') {
    problems.push(`${TRIGGERS} is "${role}", so that no trigger runs: a superuser must reset it`);
  }
  if (settings.refused.length > 0) {
    problems.push(
      `the role ${settings.role} may not use ${settings.refused.join(', ')}; see "Database roles" in docs/operate/postgresql.md`,
    );
  }
  return problems;
}

const SEE_POOLERS = 'see "Poolers" in docs/operate/postgresql.md';

/** What is only ever wrong behind a pooler: without one, the connections set it themselves. */
function sessionProblems(settings: DatabaseSettings): string[] {
  const { statementTimeoutMs, idleTimeoutMs, isolation, meaning } = settings;
  const wrong: string[] = [];
  if (statementTimeoutMs === 0) wrong.push('statement_timeout is off');
  if (statementTimeoutMs > STATEMENT_TIMEOUT_MS) {
    wrong.push(
      `statement_timeout is ${String(statementTimeoutMs)} ms, and may be ${String(STATEMENT_TIMEOUT_MS)} ms at most`,
    );
  }
  if (idleTimeoutMs === 0) wrong.push('idle_in_transaction_session_timeout is off');
  if (isolation !== 'read committed') {
    wrong.push(`default_transaction_isolation is "${isolation}", and must be "read committed"`);
  }
  for (const [name, form] of Object.entries(NEEDED)) {
    const found = meaning[name];
    if (found !== undefined && !form.test(found)) wrong.push(`${name} is "${found}"`);
  }
  if (wrong.length === 0) return [];
  return [
    `${wrong.join('; ')}: a pooler has dropped the connection options; set them for the role, ${SEE_POOLERS}`,
  ];
}

/** The database's time, ISO-8601. */
export async function readNow(sql: Sql<'guests' | 'reads'>): Promise<string> {
  return (await readClock(sql)).toISOString();
}

/** Resolves when the database answers and its tables exist. */
export async function checkReachable(sql: Sql<'general'>): Promise<void> {
  await sql.$queryRaw<
    { one: number }[]
  >`select 1 as one from (select from lease limit 1) as l right join (select 1) as x on true`;
}

// Notices a pooler in transaction mode that the address does not mention.

/** SQLSTATE of a statement that its session does not know. */
const UNKNOWN_STATEMENT = '26000';
/** What PgBouncer says of connection options. */
const OPTIONS_REFUSED = /unsupported startup parameter: options/u;
/** A pooler may happen to hand out the same session again. */
const TRIES = 3;
/** How long to wait for a connection, and for each answer. */
const ANSWER_MS_MAX = 5_000;
const REMEDY =
  'add pgbouncer=true to DATABASE_URL and set the connection options for the role, see "Poolers" in docs/operate/postgresql.md';

/** What is wrong, where a pooler has refused a connection for its options. */
export function optionsRefusal(error: unknown): string | undefined {
  const isRefused = error instanceof Error && OPTIONS_REFUSED.test(error.message);
  return isRefused ? `a pooler refuses connection options: ${REMEDY}` : undefined;
}

/**
 * Why statements that are prepared once for a connection would fail; undefined when they work. A pooler in
 * transaction mode gives each transaction any session, and most do not take the statements along.
 *
 * Not asked of an address that mentions the pooler: then nothing is prepared.
 * @throws {Error} also when no answer comes in time.
 */
export async function poolerProblem(
  databaseUrl: string,
  answerMsMax = ANSWER_MS_MAX,
): Promise<string | undefined> {
  const { connectionString, options, isPooled } = connectionOf(databaseUrl);
  if (isPooled) return undefined;
  const connection = {
    connectionString,
    options,
    connectionTimeoutMillis: answerMsMax,
    query_timeout: answerMsMax,
  };
  const clients = [new pg.Client(connection), new pg.Client(connection)] as const;
  for (const client of clients) client.on('error', () => undefined);
  try {
    for (const client of clients) await client.connect();
    for (let tries = 0; tries < TRIES; tries += 1) await findAgain(...clients);
    return undefined;
  } catch (error) {
    const refusal = optionsRefusal(error);
    if (refusal !== undefined) return refusal;
    if (sqlStateOf(error) === UNKNOWN_STATEMENT) {
      return `a pooler in transaction mode does not keep prepared statements: ${REMEDY}`;
    }
    // Who has fallen silent does not answer the end of a connection either.
    for (const client of clients) client.connection.stream.destroy();
    throw error;
  } finally {
    for (const client of clients) await client.end().catch(() => undefined);
  }
}

/**
 * Prepares a statement, and carries it out again while another transaction has the session, if sessions are
 * handed out.
 */
async function findAgain(first: pg.Client, second: pg.Client): Promise<void> {
  const statement = { name: `leasehold_check_${randomUUID()}`, text: 'select 1' };
  await first.query(statement);
  await second.query('begin');
  await second.query('select 1');
  await first.query(statement);
  await second.query('rollback');
}
