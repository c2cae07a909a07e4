import { LeaseError } from '../../kernel/errors/index.ts';
import {
  keyNameOf,
  reservationKeyText,
  type ReservationKey,
  type ReservationPointer,
} from '../../kernel/resource/reservation.ts';
import { C, onlyRow, type Sql } from '../../postgres/sql.ts';

/** The first reservation of a key, as this datacenter's database has it. Index: the primary key. */
export async function readHome(sql: Sql<'general'>, key: string): Promise<string | undefined> {
  const rows = await sql.$queryRaw<{ reservationId: string }[]>`
    select reservation_id as "reservationId" from reservation_home where key = ${key} ${C}`;
  return rows[0]?.reservationId;
}

/**
 * Writes down a key's first reservation, unless there is one: the first one stays.
 * @returns the one that is there then.
 */
export async function putHome(
  sql: Sql<'general'>,
  key: string,
  reservationId: string,
): Promise<string> {
  const rows = await sql.$queryRaw<{ reservationId: string }[]>`
    insert into reservation_home (key, reservation_id) values (${key}, ${reservationId})
    on conflict (key) do nothing
    returning reservation_id as "reservationId"`;
  // The conflicting row is committed and never changes, so that it can be read.
  return rows[0]?.reservationId ?? onlyRow([await readHome(sql, key)].filter(isThere));
}

/**
 * Reserves a key in this database, as the store of a datacenter that is alone, unless it is reserved.
 * A reservation that is new is made active too if somebody is about to use it (`activateFor`): it needs no
 * proof, because this statement is what would prove it. See `activate`.
 *
 * - **Atomic because** one statement sees whether this database is still the store, and writes.
 *   `markPublishing` waits for the statements that saw it so.
 * @returns the reservation that is there then, and whether it is active.
 * @throws {LeaseError} `reservation.store_unreachable` when the reservations of this database are in
 * etcd: another controller was started with etcd, and this one without.
 */
export async function reserveHere(
  sql: Sql<'general'>,
  reserving: {
    readonly key: ReservationKey;
    readonly reservationId: string;
    readonly activateFor?: string | undefined;
  },
): Promise<{ readonly held: string; readonly isActive: boolean }> {
  const { reservationId, activateFor = null } = reserving;
  const key = reservationKeyText(reserving.key);
  const named = keyNameOf(reserving.key);
  const { isStore, held, isActive } = onlyRow(
    await sql.$queryRaw<{ isStore: boolean; held: string | null; isActive: boolean }[]>`
      with alone as materialized (
        select from reservation_membership where store_id is null
      ),
      known as materialized (
        select h.reservation_id from reservation_home h where h.key = ${key} ${C}
      ),
      made as (
        insert into reservation_home (key, reservation_id)
        select ${key}, ${reservationId}
        where exists (select from alone) and not exists (select from known)
        on conflict (key) do nothing
        returning reservation_id
      ),
      active as (
        insert into reservation (reservation_id, key, namespace, name, chain, activated_by)
        select m.reservation_id, ${key}, ${named?.namespace ?? null}::text, ${named?.name ?? null}::text,
          array[]::text[], ${activateFor}::text
        from made m
        where ${activateFor}::text is not null
        on conflict do nothing
        returning reservation_id
      )
      select exists (select from alone) as "isStore",
        coalesce((select k.reservation_id from known k), (select m.reservation_id from made m)) as held,
        exists (select from active) or exists (
          select from known k
          join reservation r on r.reservation_id = k.reservation_id
          where r.key = ${key} ${C} and r.state = 'active'
        ) as "isActive"`,
  );
  if (!isStore) {
    throw new LeaseError(
      'reservation.store_unreachable',
      'The reservations of this datacenter are in etcd, and this controller was started without LEASEHOLD_ETCD: start it again with what the others have.',
    );
  }
  // The conflicting row is committed and never changes, so that it can be read.
  return { held: held ?? onlyRow([await readHome(sql, key)].filter(isThere)), isActive };
}

/** Writes many at once; existing ones stay as they are. */
export async function putHomes(
  sql: Sql<'general'>,
  homes: readonly { readonly key: string; readonly reservationId: string }[],
): Promise<void> {
  await sql.$queryRaw`
    insert into reservation_home (key, reservation_id)
    select h.key, h.reservation_id
    from unnest(
      ${homes.map(({ key }) => key)}::text[], ${homes.map(({ reservationId }) => reservationId)}::text[]
    ) as h (key, reservation_id)
    order by h.key ${C}
    on conflict (key) do nothing
    returning 1 as put`;
}

/** Where a reservation moved to, as this datacenter's database has it. Index: the primary key. */
export async function readPointer(
  sql: Sql<'general' | 'transitions'>,
  fromId: string,
): Promise<ReservationPointer | undefined> {
  const rows = await sql.$queryRaw<ReservationPointer[]>`
    select from_id as "fromId", to_id as "toId", token_floor::text as "tokenFloor"
    from reservation_pointer where from_id = ${fromId} ${C}`;
  return rows[0];
}

/** Writes a pointer, unless there is one: the first one stays. @returns the one that is there then. */
export async function putPointer(
  sql: Sql<'general' | 'transitions'>,
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
