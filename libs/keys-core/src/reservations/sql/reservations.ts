import { ensureLeaseRow } from '../../grants/index.ts';
import { LeaseError } from '../../kernel/errors.ts';
import type { Count, FilterOf, Page } from '../../kernel/face-types.ts';
import {
  keyNameOf,
  parseReservationKey,
  type ReservationKey,
  reservationKeyText,
  type ReservationPointer,
} from '../../kernel/reservation.ts';
import { containsText, foldedOf, withinLimits, withinNamespace } from '../../lists/index.ts';
import type { Store } from '../../postgres/open-store.ts';
import { boundedCount, decodeCursor, pageOf } from '../../postgres/paging.ts';
import {
  C,
  type Fragment,
  fragment,
  isoOf,
  joinFragments,
  onlyRow,
  type Sql,
} from '../../postgres/sql.ts';
import type {
  ReservationListInput,
  ReservationStatus,
  ReservationView,
} from '../reservation-types.ts';

/** What shows that a reservation is the home of its key: the chain that leads to it. */
export interface Proof {
  /** The reservations before it, the first one first; empty for a first reservation. */
  readonly chain: readonly string[];
  /** Of the pointer that leads to it; null for a first reservation. */
  readonly tokenFloor: string | null;
}

/** The status of a reservation of this datacenter as the home of this key. Index: the primary keys. */
export async function readReservationStatus(
  sql: Sql<'general'>,
  reservationId: string,
  key: ReservationKey,
): Promise<ReservationStatus> {
  const [row] = await sql.$queryRaw<ReservationRow[]>`
    select r.state, p.to_id as "toId", p.token_floor::text as "tokenFloor",
      extract(epoch from r.moved_at)::float8 * 1000 as "movedAt", r.moved_by as "movedBy",
      r.move_reason as "moveReason"
    from reservation r
    left join reservation_pointer p on p.from_id = r.reservation_id
    where r.reservation_id = ${reservationId} ${C} and r.key = ${reservationKeyText(key)} ${C}`;
  if (row === undefined) return { standing: 'pending' };
  if (row.state === 'active') return { standing: 'active' };
  const { toId, tokenFloor, movedAt, movedBy, moveReason } = row;
  // Left, and its pointer is not known here: nothing is granted under it, and the store has the pointer.
  if (toId === null || tokenFloor === null) return { standing: 'pending' };
  const left =
    movedAt === null ? undefined : { at: isoOf(movedAt), by: movedBy ?? '', reason: moveReason };
  return { standing: 'moved', pointer: { fromId: reservationId, toId, tokenFloor }, left };
}

interface ReservationRow {
  state: 'active' | 'moved';
  toId: string | null;
  tokenFloor: string | null;
  movedAt: number | null;
  movedBy: string | null;
  moveReason: string | null;
}

/**
 * Makes a proven reservation of this datacenter active: from this commit on, and never before, keys
 * are granted under it. Doing it again changes nothing, also after the key has moved on.
 *
 * A key that came from elsewhere gets a row here whose token is the pointer's floor, so that its next
 * token is greater than all before. If the key has lived here before, its row was sealed for a
 * reservation of the chain, and is unsealed for this one alone.
 *
 * - **Atomic because** the insert of the reservation decides: only the inserter unseals, once.
 * - **Locks**: the reservation's row, then the lease row.
 * - **Index**: `reservation_pkey`, `reservation_active_key_key`, `lease_pkey`.
 */
export async function activate(
  store: Pick<Store, 'general'>,
  activation: Proof & {
    readonly reservationId: string;
    readonly key: ReservationKey;
    readonly actor: string;
  },
): Promise<ReservationStatus> {
  const { reservationId, key, chain, tokenFloor, actor } = activation;
  const named = keyNameOf(key);
  const isFirst = await store.general.$transaction(async (tx) => {
    const made = await tx.$queryRaw<{ one: number }[]>`
      insert into reservation (reservation_id, key, namespace, name, chain, activated_by)
      values (
        ${reservationId}, ${reservationKeyText(key)}, ${named?.namespace ?? null}::text,
        ${named?.name ?? null}::text, ${chain}::text[], ${actor}
      )
      on conflict do nothing
      returning 1 as one`;
    if (made.length === 0) return false;
    if (tokenFloor !== null && named !== undefined) {
      await ensureLeaseRow(tx, { face: 'key', ...named });
      await tx.$queryRaw`
        update lease l
        set home_reservation = ${reservationId},
          fencing_token = greatest(l.fencing_token, ${tokenFloor}::bigint)
        where l.face = 'key' and l.namespace = ${named.namespace} ${C} and l.name = ${named.name} ${C}
          and (l.home_reservation is null or l.home_reservation = any (${chain}::text[]))
        returning 1 as unsealed`;
    }
    return true;
  });
  return isFirst
    ? { standing: 'active', isJustActivated: true }
    : readReservationStatus(store.general, reservationId, key);
}

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

/** A reservation of this datacenter; instants are epoch milliseconds. */
interface ListedReservation extends Omit<
  ReservationView,
  'key' | 'datacenter' | 'activatedAt' | 'movedAt'
> {
  key: string;
  activatedAt: number;
  movedAt: number | null;
}

/**
 * A page of this datacenter's reservations, in the order of their keys as text. A caller that is
 * limited to namespaces sees those of keys in them. Index: `reservation_key_idx`, in its order.
 */
export async function listReservations(
  store: Pick<Store, 'reads' | 'datacenter'>,
  input: ReservationListInput,
  limits: readonly string[] | null,
): Promise<Page<ReservationView>> {
  const { cursor, limit } = input;
  const [afterKey, afterId] = cursor === undefined ? [] : decodeCursor(cursor, 2);
  const conditions = [
    ...conditionsOf(input, limits),
    afterKey === undefined || afterId === undefined
      ? fragment`true`
      : fragment`(r.key, r.reservation_id) > (${afterKey} ${C}, ${afterId} ${C})`,
  ];
  const rows = await store.reads.$queryRaw<ListedReservation[]>`
    select r.key, r.reservation_id as "reservationId", r.state, r.chain, p.to_id as "movedTo",
      r.activated_by as "activatedBy",
      extract(epoch from r.activated_at)::float8 * 1000 as "activatedAt",
      extract(epoch from r.moved_at)::float8 * 1000 as "movedAt",
      r.moved_by as "movedBy", r.move_reason as "moveReason"
    from reservation r
    left join reservation_pointer p on p.from_id = r.reservation_id
    where ${joinFragments(conditions, ' and ')}
    order by r.key, r.reservation_id
    limit ${limit + 1}`;
  const page = pageOf(rows, limit, (row) => [row.key, row.reservationId]);
  return { ...page, items: page.items.map((row) => viewOf(store, row)) };
}

/** How many reservations all pages have together. */
export async function countReservations(
  store: Pick<Store, 'reads'>,
  input: FilterOf<ReservationListInput>,
  limits: readonly string[] | null,
): Promise<Count> {
  const conditions = joinFragments(conditionsOf(input, limits), ' and ');
  return boundedCount(store.reads, fragment`reservation r where ${conditions}`);
}

function conditionsOf(
  { namespace, prefix, contains, state }: FilterOf<ReservationListInput>,
  limits: readonly string[] | null,
): Fragment[] {
  const column = fragment`r.namespace`;
  return [
    withinLimits(limits, column),
    namespace === undefined ? fragment`true` : withinNamespace(namespace, column),
    prefix === undefined ? fragment`true` : fragment`starts_with(r.name, ${prefix} ${C})`,
    contains === undefined
      ? fragment`true`
      : fragment`(${containsText(contains, fragment`r.namespace`, fragment`r.name`)}
          or (r.name is null and strpos(search_folded(r.key), ${foldedOf(contains)}) > 0))`,
    state === undefined ? fragment`true` : fragment`r.state = ${state}`,
  ];
}

function viewOf(
  { datacenter }: Pick<Store, 'datacenter'>,
  row: ListedReservation,
): ReservationView {
  return {
    ...row,
    key: parseReservationKey(row.key),
    datacenter,
    chain: [...row.chain, row.reservationId],
    activatedAt: isoOf(row.activatedAt),
    movedAt: row.movedAt === null ? null : isoOf(row.movedAt),
  };
}
