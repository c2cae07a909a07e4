/** Statements with parameters, what they are sent with, and what they have in common. */
import fragment, { empty, join, type Sql as Fragment } from 'sql-template-tag';
import { invariant } from '../kernel/errors.ts';
import type { LeaseRow } from '../kernel/lease.ts';
import type { Face } from '../kernel/resource.ts';

/** A part of a statement, with its parameters. Values are parameters, and never text. */
export { fragment, type Fragment };
/** Joins parts with a separator, by default a comma. */
export { join as joinFragments };
export { empty as NO_FRAGMENT };

/** Whether a column's text has this one in it, whatever their case. */
export function contains(column: Fragment, text: string): Fragment {
  return fragment`strpos(search_folded(${column}), search_folded(${text})) > 0`;
}

/** Whether an instant is in the last so many minutes. The clock is read once, so that an index is used. */
export function inLastMinutes(instant: Fragment, minutes: number): Fragment {
  return fragment`${instant} >= (select clock_timestamp() - ${minutes}::int * interval '1 minute')`;
}

declare const POOL: unique symbol;

/**
 * What a statement is sent with: a pool, or a transaction on it. The signature of a statement names
 * the pools that it may run on; another one is a type error. This exists only in types: there is no property.
 */
export interface Sql<Pool extends PoolName> {
  readonly [POOL]?: Pool;
  $queryRaw<Rows = unknown>(
    query: TemplateStringsArray | Fragment,
    ...values: unknown[]
  ): Promise<Rows>;
}

/** The statement that a template, or a fragment, stands for. */
export function statementOf(
  query: TemplateStringsArray | Fragment,
  values: readonly unknown[],
): Fragment {
  return isTemplate(query) ? fragment(query, ...values) : query;
}

function isTemplate(query: TemplateStringsArray | Fragment): query is TemplateStringsArray {
  return Array.isArray(query);
}

/** A pool, which sends a statement, or several in one transaction. */
export interface SqlPool<Pool extends PoolName> extends Sql<Pool> {
  $transaction<Result>(work: (tx: Sql<Pool>) => Promise<Result>): Promise<Result>;
}

/** The pools of a store, see its fields. */
export type PoolName =
  'general' | 'transitions' | 'renewals' | 'vital' | 'slowLane' | 'reads' | 'guests';

/**
 * The columns of a lease row in the shape of {@link LeaseRow}; the table's alias must be `l`. Here and in other
 * statements that are sent often, `date_part` and not `extract`, whose `numeric` costs ten times as much.
 */
export const LEASE_COLUMNS = fragment`
  l.face, l.namespace, l.name, l.lease_id as "leaseId", l.fencing_token::text as "fencingToken",
  l.holder, l.principal, l.tag, l.comment,
  l.ttl_ms as "ttlMs", l.renew_after_ms as "renewAfterMs",
  l.soft_after_ms as "softAfterMs", l.hard_after_ms as "hardAfterMs",
  date_part('epoch', l.granted_at) * 1000 as "grantedAt",
  date_part('epoch', l.renewed_at) * 1000 as "renewedAt",
  date_part('epoch', l.expires_at) * 1000 as "expiresAt",
  date_part('epoch', l.released_at) * 1000 as "releasedAt",
  date_part('epoch', l.stops_by) * 1000 as "stopsBy",
  l.end_reason as "endReason", l.renewable,
  date_part('epoch', clock_timestamp()) * 1000 as "asOf"`;

/**
 * Numbers, booleans and ids as one text in PostgreSQL's form of an array. The client library turns a list into
 * the same text, at several times the cost.
 */
export function arrayText(values: readonly (string | number | boolean | undefined)[]): string {
  invariant(
    values.every((value) => typeof value !== 'string' || !value.includes(',')),
    'an id holds no comma',
  );
  return `{${values.join(',')}}`;
}

const ESCAPED = /["\\]/gu;
const HAS_ESCAPED = /["\\]/u;

/** Texts as one text in PostgreSQL's form of an array, for the same reason. */
export function textArray(values: readonly (string | null)[]): string {
  return `{${values.map((value) => (value === null ? 'NULL' : quoted(value))).join(',')}}`;
}

function quoted(text: string): string {
  const escaped = HAS_ESCAPED.test(text) ? text.replaceAll(ESCAPED, String.raw`\$&`) : text;
  return `"${escaped}"`;
}

/** The scope of a row `l` as its name: that of a slot in a pool is the pool's. */
export const SCOPE_NAME = fragment`coalesce(l.pool, l.name) as name`;

/**
 * The rows `l` that carry the grants of a resource, of those that fulfil `where`: its own, or of one that several may
 * hold at once its slots. Those are named after the scope or, where all keys of a namespace have a limit together, are
 * the first of the namespace; the row with the resource's own name is never granted then. Index: the primary key.
 */
export function grantRows(
  { face, namespace, name }: Readonly<Record<'face' | 'namespace' | 'name', Fragment>>,
  { where, limit }: { readonly where: Fragment; readonly limit: number },
): Fragment {
  const named = (names: Fragment): Fragment => fragment`(
        select l.* from lease l
        where l.face = ${face} and l.namespace = ${namespace} and ${names} and ${where}
        limit ${limit}
      )`;
  const own = fragment`l.name = ${name} and l.pool is null`;
  const beside = fragment`l.name > ${name} || chr(31) and l.name < ${name} || ' '`;
  const together = fragment`l.name > chr(31) ${C} and l.name < ' ' ${C} and l.pool = ${name}`;
  return join([own, beside, together].map(named), ' union all ');
}

/** A resource as parameters of a statement. */
export function asParameters({
  face,
  namespace,
  name,
}: Readonly<Record<'face' | 'namespace' | 'name', string>>) {
  return {
    face: fragment`${face} ${C}`,
    namespace: fragment`${namespace} ${C}`,
    name: fragment`${name}::text ${C}`,
  };
}

/** Of a row `l`: whether its grant is in force. */
export const IS_IN_FORCE = fragment`lease_unexpired(l.released_at, l.end_reason, l.expires_at)`;

/** Gives a text the collation of the columns that it is compared with. */
export const C = fragment`collate "C"`;

/**
 * Whether `select true from …` finds a row, by one probe of an index for each row that asks. `exists`
 * lets PostgreSQL read the whole table once instead, and a plan that a connection keeps was made when the
 * table was empty: grants were seen to read every idempotency key of the day.
 */
export function isFound(query: Fragment): Fragment {
  return fragment`((${query} limit 1) is not null)`;
}

/**
 * A condition on a face that no index is used for. The primary key begins with the face, and PostgreSQL was
 * seen to read all leases of a face instead of the one with a lease id, while the table was small.
 */
export function isFace(face: Face): Fragment {
  return fragment`is not distinct from ${face}`;
}

/**
 * The token of a resource without a row must exceed this: its row may have been deleted while the
 * database's clock was ahead. One row, read once per statement.
 */
export const TOKEN_FLOOR = fragment`(select f.floor from lease_token_floor f)`;

/** Reads the row of each resource, in the order asked; undefined where none exists. */
export async function readLeases(
  sql: Sql<'general' | 'transitions'>,
  resources: readonly { face: Face; namespace: string; name: string }[],
): Promise<(LeaseRow | undefined)[]> {
  const rows = await sql.$queryRaw<(LeaseRow & { place: number })[]>`
    select w.place::int as place, ${LEASE_COLUMNS}
    from unnest(
      ${resources.map((resource) => resource.face)}::text[],
      ${resources.map((resource) => resource.namespace)}::text[],
      ${resources.map((resource) => resource.name)}::text[]
    ) with ordinality as w (face, namespace, name, place)
    join lease l
      on l.face = w.face ${C} and l.namespace = w.namespace ${C} and l.name = w.name ${C}`;
  const found = new Array<LeaseRow | undefined>(resources.length).fill(undefined);
  for (const { place, ...row } of rows) found[place - 1] = row;
  return found;
}

/** Reads the rows of grants by their ids, also of slots; an id that no row has any more is left out. */
export async function readLeasesWithIds(
  sql: Sql<'general'>,
  leaseIds: readonly string[],
): Promise<ReadonlyMap<string, LeaseRow>> {
  const rows = await sql.$queryRaw<LeaseRow[]>`
    select ${LEASE_COLUMNS} from lease l where l.lease_id = any(${leaseIds}::uuid[])`;
  return new Map(rows.map((row) => [row.leaseId, row]));
}

/** The row of a statement that always returns exactly one. */
export function onlyRow<Row>(rows: readonly Row[]): Row {
  const [row] = rows;
  invariant(
    row !== undefined && rows.length === 1,
    `one row expected, ${String(rows.length)} came`,
  );
  return row;
}

/** A row of a view whose instants are still dates. */
export type Dated<View, Instants extends keyof View> = {
  readonly [Column in keyof View]: Column extends Instants
    ? Date | Exclude<View[Column], string>
    : View[Column];
};

type Iso<Value> = Value extends Date ? string : Value;

/** A row with its dates as they are sent to callers: ISO-8601. */
export function isoDates<Row extends object>(
  row: Row,
): { readonly [Column in keyof Row]: Iso<Row[Column]> } {
  const columns = Object.entries(row).map(([column, value]: [string, unknown]) => [
    column,
    value instanceof Date ? value.toISOString() : value,
  ]);
  return Object.fromEntries(columns) as { [Column in keyof Row]: Iso<Row[Column]> };
}

/** An instant as it is sent to callers: ISO-8601. */
export function isoOf(epochMs: number): string {
  return new Date(epochMs).toISOString();
}
