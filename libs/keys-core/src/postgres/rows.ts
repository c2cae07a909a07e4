import { invariant } from '../kernel/errors/index.ts';
import type { LeaseRow } from '../kernel/lease/lease.ts';
import type { Face } from '../kernel/resource/resource.ts';
import { fragment, type Sql } from './sql.ts';

export type { Sql } from './sql.ts';

/** The columns of a lease row in the shape of {@link LeaseRow}; the table's alias must be `l`. */
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

/** Gives a text the collation of the columns that it is compared with. */
export const C = fragment`collate "C"`;

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
