import pg from 'pg';

/** What an administrator may have set, each far from its default, and with it the meaning of statements. */
const ODD_MEANING = {
  DateStyle: 'SQL, DMY',
  IntervalStyle: 'sql_standard',
  TimeZone: 'Australia/Eucla',
  array_nulls: 'off',
  backslash_quote: 'on',
  bytea_output: 'escape',
  default_text_search_config: 'pg_catalog.german',
  escape_string_warning: 'off',
  extra_float_digits: '-15',
  gin_fuzzy_search_limit: '1',
  lc_monetary: 'C',
  lc_numeric: 'C',
  quote_all_identifiers: 'on',
  row_security: 'off',
  standard_conforming_strings: 'off',
  synchronous_commit: 'off',
  transform_null_equals: 'on',
  xmloption: 'document',
} as const;

/** What else may be set, by which statements would fail, or be slow. */
const ODD_BOUNDS = {
  check_function_bodies: 'off',
  client_min_messages: 'debug1',
  default_transaction_deferrable: 'on',
  default_transaction_isolation: 'serializable',
  enable_bitmapscan: 'off',
  enable_hashagg: 'off',
  enable_hashjoin: 'off',
  enable_indexonlyscan: 'off',
  enable_indexscan: 'off',
  enable_mergejoin: 'off',
  enable_nestloop: 'off',
  enable_seqscan: 'off',
  enable_sort: 'off',
  exit_on_error: 'on',
  idle_in_transaction_session_timeout: '1ms',
  idle_session_timeout: '50ms',
  jit: 'on',
  jit_above_cost: '0',
  lock_timeout: '1ms',
  plan_cache_mode: 'force_custom_plan',
  search_path: 'public, pg_catalog',
  statement_timeout: '1ms',
} as const;

/** Gives new sessions of a database settings on which statements of ours must not depend. */
export async function setOddly(databaseUrl: string): Promise<void> {
  await setMeaningOddly(databaseUrl);
  await setAll(databaseUrl, ODD_BOUNDS);
}

/** The same, without those that bound the statements and transactions of other programs too. */
export async function setMeaningOddly(databaseUrl: string): Promise<void> {
  await setAll(databaseUrl, ODD_MEANING);
}

async function setAll(
  databaseUrl: string,
  settings: Readonly<Record<string, string>>,
): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const database = pg.escapeIdentifier(new URL(databaseUrl).pathname.slice(1));
    for (const [name, value] of Object.entries(settings)) {
      // A list of names is no single text.
      const text = name === 'search_path' ? value : pg.escapeLiteral(value);
      await client.query(`alter database ${database} set ${name} = ${text}`);
    }
  } finally {
    await client.end();
  }
}
