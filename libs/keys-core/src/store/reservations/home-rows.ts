import type { ReservationPointer } from '../../kernel/reservation.ts';
import { onlyRow, C, type Sql } from '../rows.ts';

/** The first reservation of a key, as this datacenter's database has it. Index: the primary key. */
export async function readHome(sql: Sql, key: string): Promise<string | undefined> {
  const rows = await sql.$queryRaw<{ reservationId: string }[]>`
    select reservation_id as "reservationId" from reservation_home where key = ${key} ${C}`;
  return rows[0]?.reservationId;
}

/**
 * Writes down a key's first reservation, unless there is one: the first one stays.
 * @returns the one that is there then.
 */
export async function putHome(sql: Sql, key: string, reservationId: string): Promise<string> {
  const rows = await sql.$queryRaw<{ reservationId: string }[]>`
    insert into reservation_home (key, reservation_id) values (${key}, ${reservationId})
    on conflict (key) do nothing
    returning reservation_id as "reservationId"`;
  // A row that was in the way is committed, and rows are never changed: it is there to be read.
  return rows[0]?.reservationId ?? onlyRow([await readHome(sql, key)].filter(isThere));
}

/** Where a reservation moved to, as this datacenter's database has it. Index: the primary key. */
export async function readPointer(
  sql: Sql,
  fromId: string,
): Promise<ReservationPointer | undefined> {
  const rows = await sql.$queryRaw<ReservationPointer[]>`
    select from_id as "fromId", to_id as "toId", token_floor::text as "tokenFloor"
    from reservation_pointer where from_id = ${fromId} ${C}`;
  return rows[0];
}

/** Writes a pointer, unless there is one: the first one stays. @returns the one that is there then. */
export async function putPointer(
  sql: Sql,
  { fromId, toId, tokenFloor }: ReservationPointer,
): Promise<ReservationPointer> {
  const rows = await sql.$queryRaw<ReservationPointer[]>`
    insert into reservation_pointer (from_id, to_id, token_floor)
    values (${fromId}, ${toId}, ${tokenFloor}::bigint)
    on conflict (from_id) do nothing
    returning from_id as "fromId", to_id as "toId", token_floor::text as "tokenFloor"`;
  return rows[0] ?? onlyRow([await readPointer(sql, fromId)].filter(isThere));
}

function isThere<T>(value: T | undefined): value is T {
  return value !== undefined;
}
