/** What statements of the previous version rely on, as PostgreSQL's own catalog has it. */
import { connectionOf } from '@leasehold/service-kit';
import pg from 'pg';

/** A column, a key, an index, a trigger or a function. */
export interface Reliance {
  /** The table that it belongs to; empty for a function. */
  readonly table: string;
  readonly line: string;
  /** Whether a statement that does not know it may fail because of it. */
  readonly restricts: boolean;
}

const QUERY = `
  with tables as (
    select oid, relname from pg_class
    where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p', 'v')
      and relname <> 'schema_migration'
  )
  select relname as table,
    format('column %s.%s %s%s', relname, attname, format_type(atttypid, atttypmod),
           case when attnotnull then ' not null' else '' end) as line,
    attnotnull and not atthasdef and attidentity = '' as restricts
  from pg_attribute join tables on tables.oid = attrelid
  where attnum > 0 and not attisdropped
  union all
  select relname, format('constraint of %s: %s', relname, pg_get_constraintdef(c.oid)), true
  from pg_constraint c join tables on tables.oid = c.conrelid
  where contype in ('c', 'f', 'p', 'u', 'x')
  union all
  select relname, pg_get_indexdef(indexrelid), indisunique
  from pg_index join tables on tables.oid = indrelid
  union all
  select relname, pg_get_triggerdef(t.oid), true
  from pg_trigger t join tables on tables.oid = tgrelid
  where not tgisinternal
  union all
  select '', format('function %s(%s) returns %s', proname, pg_get_function_identity_arguments(oid),
                    pg_get_function_result(oid)), false
  from pg_proc
  where pronamespace = current_schema()::regnamespace
  order by line`;

export async function reliancesOf(databaseUrl: string): Promise<Reliance[]> {
  const client = new pg.Client(connectionOf(databaseUrl));
  await client.connect();
  try {
    return (await client.query<Reliance>(QUERY)).rows;
  } finally {
    await client.end();
  }
}

/** What has become of the reliances of the previous version; empty when they all hold. */
export function brokenReliances(before: readonly Reliance[], after: readonly Reliance[]): string[] {
  const known = new Set(before.map(({ line }) => line));
  const left = new Set(after.map(({ line }) => line));
  const tables = new Set(before.map(({ table }) => table));
  return [
    ...before.filter(({ line }) => !left.has(line)).map(({ line }) => `gone or changed: ${line}`),
    ...after
      .filter(({ line, table, restricts }) => restricts && tables.has(table) && !known.has(line))
      .map(({ line }) => `new rule for a table of the previous version: ${line}`),
  ];
}
