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
export function optionsOf(settings: Settings): string {
  return Object.entries(settings)
    .flatMap(([name, value]) =>
      value === undefined ? [] : [`-c ${name}=${value.replaceAll(' ', String.raw`\ `)}`],
    )
    .join(' ');
}
