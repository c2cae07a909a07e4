/**
 * The settings of a session that statements of Leasehold depend on. An administrator may have set others for
 * the database or for a role, for other programs. Each connection begins with these instead, so that they cost
 * no round trip.
 *
 * Not here, because they are the administrator's decision: `default_transaction_read_only`, where tables are
 * stored, memory and the costs of plans.
 */

/** What a statement and its values mean, and that nothing that was answered is lost. */
export const MEANING_SETTINGS = {
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  array_nulls: 'on',
  bytea_output: 'hex',
  extra_float_digits: '1',
  // Above 0, a search would find only some of the names.
  gin_fuzzy_search_limit: '0',
  quote_all_identifiers: 'off',
  row_security: 'on',
  standard_conforming_strings: 'on',
  synchronous_commit: 'on',
  transform_null_equals: 'off',
} as const;

/** How statements are planned. Compiling one takes longer than carrying it out. */
const PLAN_SETTINGS = {
  jit: 'off',
  plan_cache_mode: 'auto',
  enable_bitmapscan: 'on',
  enable_hashagg: 'on',
  enable_hashjoin: 'on',
  enable_indexonlyscan: 'on',
  enable_indexscan: 'on',
  enable_material: 'on',
  enable_mergejoin: 'on',
  enable_nestloop: 'on',
  enable_seqscan: 'on',
  enable_sort: 'on',
} as const;

/** For statements of ours in a transaction of somebody else, beside the schema to search. */
export const STATEMENT_SETTINGS = { ...MEANING_SETTINGS, ...PLAN_SETTINGS } as const;

/** For a connection of ours, beside the schema to search. Each pool sets its own timeouts after these. */
export const SESSION_SETTINGS = {
  ...STATEMENT_SETTINGS,
  client_min_messages: 'warning',
  default_transaction_deferrable: 'off',
  default_transaction_isolation: 'read committed',
  exit_on_error: 'off',
  idle_in_transaction_session_timeout: '0',
  idle_session_timeout: '0',
  lock_timeout: '0',
  statement_timeout: '0',
} as const;

/**
 * PostgreSQL from 17 on can also end a session whose transaction takes too long. An earlier one refuses a
 * connection that names the setting, so that this is a statement of its own. It has no effect on an earlier one.
 */
export const WITHOUT_TRANSACTION_TIMEOUT = `select case
  when current_setting('transaction_timeout', true) is not null
  then set_config('transaction_timeout', '0', false)
end`;

/** Settings by their names; one that is undefined is left to the database and the role. */
export type Settings = Readonly<Record<string, string | undefined>>;

/** Settings as a connection's start-up option `options` takes them. */
function optionsOf(settings: Settings): string {
  return Object.entries(settings)
    .flatMap(([name, value]) =>
      value === undefined ? [] : [`-c ${name}=${value.replaceAll(' ', String.raw`\ `)}`],
    )
    .join(' ');
}

// The address of a database, with the schema that Leasehold's tables are in. The schema travels in the
// address as `?schema=`, as Prisma writes it, so that the address alone is complete.

/** The schema of Leasehold's tables, unless another one is named. */
export const DEFAULT_SCHEMA = 'leasehold';

/** Its name becomes a part of other names, which PostgreSQL cuts at 63 bytes. */
const SCHEMA_NAME = /^[a-z_][a-z0-9_]{0,39}$/u;

/** Why a schema cannot have this name; undefined when it can. */
export function schemaProblem(name: string): string | undefined {
  if (!SCHEMA_NAME.test(name)) {
    return 'must be 1 to 40 of a-z, 0-9 and "_", and begin with no digit';
  }
  if (name.startsWith('pg_') || name === 'information_schema') {
    return "must not be one of PostgreSQL's own schemas";
  }
  return undefined;
}

/** Where the tables are. */
export interface DatabasePlace {
  /** With `?schema=`; null when no database is named. */
  readonly databaseUrl: string | null;
  readonly schema: string;
  /** What is wrong with the two, each problem with the name of its variable. */
  readonly problems: readonly string[];
}

/** The place that DATABASE_URL and LEASEHOLD_SCHEMA name together. */
export function databasePlaceOf(values: {
  readonly DATABASE_URL?: string | undefined;
  readonly LEASEHOLD_SCHEMA?: string | undefined;
}): DatabasePlace {
  const { DATABASE_URL: url, LEASEHOLD_SCHEMA: named } = values;
  const inUrl = url === undefined ? null : new URL(url).searchParams.get('schema');
  const problems: string[] = [];
  if (inUrl !== null) {
    const problem = schemaProblem(inUrl);
    if (problem !== undefined) problems.push(`DATABASE_URL: its schema ${problem}`);
    if (named !== undefined && named !== inUrl) {
      problems.push('LEASEHOLD_SCHEMA: must be the schema that DATABASE_URL names, or be left out');
    }
  }
  const schema = inUrl ?? named ?? DEFAULT_SCHEMA;
  return { databaseUrl: url === undefined ? null : withSchema(url, schema), schema, problems };
}

/** The same address, with this schema. */
export function withSchema(databaseUrl: string, schema: string): string {
  const url = new URL(databaseUrl);
  url.searchParams.set('schema', schema);
  return url.href;
}

/**
 * The same address for psql, pg and others, which do not know the parameters that Prisma does: unqualified names mean
 * Leasehold's tables. A pooler in transaction mode takes no such setting, and gets none.
 */
export function plainDatabaseUrl(databaseUrl: string): string {
  const { schema, isPooled } = connectionOf(databaseUrl);
  const url = new URL(databaseUrl);
  const own = url.searchParams.get('options');
  for (const name of ['schema', 'options', POOLED]) url.searchParams.delete(name);
  if (!isPooled) {
    const all = [own, `-c search_path=${searchPathOf(schema)}`].filter((part) => part !== null);
    url.searchParams.set('options', all.join(' '));
  }
  // libpq reads a space in this form alone.
  url.search = url.search.replaceAll('+', '%20');
  return url.href;
}

/** How to connect to an address: the parts of pg's configuration that come from it. */
export interface DatabaseConnection {
  readonly connectionString: string;
  /** Settings of the session, as the server takes them at the start of a connection; empty if it takes none. */
  readonly options: string;
  readonly schema: string;
  /** Whether each transaction may have another session. */
  readonly isPooled: boolean;
}

/** How an address says that a pooler in transaction mode is in between; the name is Prisma's. */
const POOLED = 'pgbouncer';

/**
 * How to connect so that unqualified names mean Leasehold's tables, and nothing else, and statements mean the
 * same whatever is set for the database and the role. `settings` are further settings of the session. All
 * win over those of the address.
 *
 * A pooler in transaction mode (`?pgbouncer=true`) refuses or drops settings of a session, so it is sent
 * none: they must be set for the role, which a controller checks when it starts.
 * @throws {RangeError} when the name of the schema in the address is not valid.
 */
export function connectionOf(databaseUrl: string, settings: Settings = {}): DatabaseConnection {
  const url = new URL(databaseUrl);
  const schema = url.searchParams.get('schema') ?? DEFAULT_SCHEMA;
  const problem = schemaProblem(schema);
  if (problem !== undefined) throw new RangeError(`The schema of the database ${problem}.`);
  const own = url.searchParams.get('options');
  const isPooled = url.searchParams.get(POOLED) === 'true';
  for (const name of ['schema', 'options', POOLED]) url.searchParams.delete(name);
  if (isPooled) return { connectionString: url.href, options: '', schema, isPooled };
  const all = optionsOf({ ...SESSION_SETTINGS, search_path: searchPathOf(schema), ...settings });
  return {
    connectionString: url.href,
    options: [...(own === null ? [] : [own]), all].join(' '),
    schema,
    isPooled,
  };
}

/** Temporary tables come last: otherwise one of them could hide a table of Leasehold. */
export function searchPathOf(schema: string): string {
  return `${schema},pg_temp`;
}
