/**
 * This datacenter as the reservation store knows it, and what a start owes that store: to tell it
 * what lives here, when it is new or was restored; and to read from it what has left, when this
 * database was restored.
 */
import { ensureLeaseRow } from '../../grants/index.ts';
import {
  keyNameOf,
  type ReservationKey,
  reservationKeyText,
  type ReservationPointer,
} from '../../kernel/reservation.ts';
import type { Named } from '../../kernel/resource.ts';
import type { Store } from '../../postgres/open-store.ts';
import type { RecordSql } from '../../postgres/records.ts';
import { C, onlyRow, type Sql } from '../../postgres/sql.ts';
import type { GivenUp } from '../given-up.ts';
import { putPointer } from './reservations.ts';

export interface Membership {
  /** Which database this is; random. */
  readonly clusterId: string;
  /** The name that it was registered under; null before that. */
  readonly datacenter: string | null;
  /**
   * Where the reservations of this database are: null if in itself; {@link PUBLISHING} if in an
   * etcd that does not have all of them yet; otherwise the cluster id of the etcd that has them.
   */
  readonly storeId: string | null;
  /** The epoch in which the pointers were last read back. */
  readonly syncedEpoch: number | null;
  /** The epoch of the database now; null before it was checked for the first time. */
  readonly epoch: number | null;
}

/** The `storeId` of a database whose reservations are on their way to etcd. */
export const PUBLISHING = 'publishing';

/** @throws when the migrations have not been applied. */
export async function readMembership({ records }: RecordSql): Promise<Membership> {
  const [membership, database] = await Promise.all([
    records.reservationMembership.findFirstOrThrow({
      select: { clusterId: true, datacenter: true, storeId: true, syncedEpoch: true },
    }),
    records.databaseEpoch.findFirst({ select: { epoch: true } }),
  ]);
  return { ...membership, epoch: database?.epoch ?? null };
}

/** Writes down what a start has done; what is not given stays as it is. */
export async function noteMembership(
  { records }: RecordSql,
  done: { datacenter?: string; storeId?: string; syncedEpoch?: number },
): Promise<void> {
  await records.reservationMembership.updateMany({ data: done });
}

/**
 * From this commit on the reservations of this database are in etcd, and {@link reserveHere} refuses.
 * What it has accepted is committed, and can be published.
 *
 * - **Locks**: the table that is written to. It waits for every reservation that saw the mark missing,
 *   and none is begun meanwhile: a statement takes its snapshot after it has this lock.
 */
export async function markPublishing(store: Pick<Store, 'general'>): Promise<void> {
  await store.general.$transaction(async (tx) => {
    await tx.$executeRaw`lock table reservation_home in share row exclusive mode`;
    await noteMembership(tx, { storeId: PUBLISHING });
  });
}

/**
 * Registers a datacenter's name in this database, which is the store when there is no other.
 * @returns the cluster that has the name then.
 */
export async function registerHere(
  { records }: RecordSql,
  datacenter: string,
  clusterId: string,
): Promise<string> {
  const { reservationDatacenter } = records;
  await reservationDatacenter.createMany({
    data: { name: datacenter, clusterId },
    skipDuplicates: true,
  });
  const registered = await reservationDatacenter.findUnique({ where: { name: datacenter } });
  return registered?.clusterId ?? clusterId;
}

/** A key, as text, with its first reservation; rows come in the order of their keys. */
export interface HomeRow {
  readonly key: string;
  readonly reservationId: string;
}

/** The next first reservations of these datacenters. Index: the primary keys. */
export function firstReservationsAfter(
  sql: Sql<'reads'>,
  datacenters: readonly string[],
  page: { readonly afterKey: string; readonly limit: number },
): Promise<HomeRow[]> {
  const { afterKey, limit } = page;
  // An activated one counts too: what was learned from the store may not have been recorded.
  return sql.$queryRaw<HomeRow[]>`
    (
      select key, reservation_id as "reservationId" from reservation_home
      where key > ${afterKey} ${C} and split_part(reservation_id, '.', 1) = any (${datacenters}::text[])
      order by key
      limit ${limit}
    )
    union
    (
      select key, reservation_id from reservation
      where key > ${afterKey} ${C} and cardinality(chain) = 0
      order by key
      limit ${limit}
    )
    order by key
    limit ${limit}`;
}

/**
 * The first reservations of this datacenter that were written down last.
 * Index: `reservation_home_newest_idx`.
 */
export function newestReservations(
  sql: Sql<'reads'>,
  datacenter: string,
  limit: number,
): Promise<HomeRow[]> {
  return sql.$queryRaw<HomeRow[]>`
    select key, reservation_id as "reservationId" from reservation_home
    where split_part(reservation_id, '.', 1) = ${datacenter} ${C}
    order by recorded_at desc
    limit ${limit}`;
}

/**
 * The pointers from this datacenter that were written down last.
 * Index: `reservation_pointer_newest_idx`.
 */
export function newestPointers(
  sql: Sql<'reads'>,
  datacenter: string,
  limit: number,
): Promise<ReservationPointer[]> {
  return sql.$queryRaw<ReservationPointer[]>`
    select from_id as "fromId", to_id as "toId", token_floor::text as "tokenFloor"
    from reservation_pointer
    where split_part(from_id, '.', 1) = ${datacenter} ${C}
    order by recorded_at desc
    limit ${limit}`;
}

/** The next pointers that leave these datacenters. Index: the primary key. */
export function pointersAfter(
  sql: Sql<'reads'>,
  datacenters: readonly string[],
  page: { readonly afterId: string; readonly limit: number },
): Promise<ReservationPointer[]> {
  return sql.$queryRaw<ReservationPointer[]>`
    select from_id as "fromId", to_id as "toId", token_floor::text as "tokenFloor"
    from reservation_pointer
    where from_id > ${page.afterId} ${C} and split_part(from_id, '.', 1) = any (${datacenters}::text[])
    order by from_id
    limit ${page.limit}`;
}

/**
 * The next keys that were granted here before there were reservations and have none yet.
 * Index: `lease_pkey`.
 */
export function unreservedKeysAfter(
  sql: Sql<'reads'>,
  page: { readonly after: Named; readonly limit: number },
): Promise<Named[]> {
  const { after, limit } = page;
  return sql.$queryRaw<Named[]>`
    select l.namespace, l.name from lease l
    where l.face = 'key' and l.home_reservation is null
      and (l.namespace, l.name) > (${after.namespace} ${C}, ${after.name} ${C})
    order by l.namespace, l.name
    limit ${limit}`;
}

/** A pointer that leaves this datacenter, with the key and the way to it. */
export interface Departure {
  readonly key: ReservationKey;
  readonly pointer: ReservationPointer;
  /** The reservations before the one that was left, the first one first. */
  readonly chain: readonly string[];
}

/**
 * Records that a key has left, which a restored database may not know: writes the pointer, marks
 * the reservation as moved, and seals the key's row. Doing it again changes nothing.
 *
 * The row is sealed for the pointer's target when it belongs to the reservation that was left, or to
 * none. A row that is sealed for another one stays so: no reservation of this datacenter may grant on it.
 *
 * - **Locks**: the pointer's row, the reservation's, then the lease row, as a move does.
 * - **Index**: the primary keys.
 */
export async function sealDeparted(
  store: Pick<Store, 'general'>,
  { key, pointer, chain }: Departure,
): Promise<void> {
  const named = keyNameOf(key);
  await store.general.$transaction(async (tx) => {
    await putPointer(tx, pointer);
    await tx.$queryRaw`
      insert into reservation as r (
        reservation_id, key, namespace, name, state, chain, activated_by, moved_at, moved_by, move_reason
      )
      values (
        ${pointer.fromId}, ${reservationKeyText(key)}, ${named?.namespace ?? null}::text,
        ${named?.name ?? null}::text, 'moved', ${chain}::text[], 'leasehold',
        clock_timestamp(), 'leasehold', 'read back from the reservation store'
      )
      on conflict (reservation_id) do update
      set state = 'moved', moved_at = excluded.moved_at, moved_by = excluded.moved_by,
        move_reason = excluded.move_reason
      where r.state = 'active'
      returning 1 as moved`;
    if (named === undefined) return;
    await ensureLeaseRow(tx, { face: 'key', ...named });
    await tx.$queryRaw`
      update lease l
      set home_reservation = ${pointer.toId}
      where l.face = 'key' and l.namespace = ${named.namespace} ${C} and l.name = ${named.name} ${C}
        and (l.home_reservation is null or l.home_reservation = ${pointer.fromId} ${C})
      returning 1 as sealed`;
  });
}

/** The database's clock, in epoch milliseconds with their fractions: tokens are compared with it. */
export async function readClockMs(sql: Sql<'general'>): Promise<number> {
  const rows = await sql.$queryRaw<{ asOf: number }[]>`
    select extract(epoch from clock_timestamp())::float8 * 1000 as "asOf"`;
  return onlyRow(rows).asOf;
}

/** Notes that this datacenter was not given up at an instant, and for how long that counts. */
export async function noteConfirmed(
  { records }: RecordSql,
  { atMs, forMs }: { readonly atMs: number; readonly forMs: number },
): Promise<void> {
  await records.reservationMembership.updateMany({
    data: { confirmedAt: new Date(atMs), confirmedUntil: new Date(atMs + forMs) },
  });
}

/**
 * For how long a controller may still run without asking if this datacenter was given up, in milliseconds. A
 * clock that is behind the last time at which it was asked has gone back: then nothing is known, and it is 0.
 */
export async function readConfirmedForMs(sql: RecordSql): Promise<number> {
  const confirmed = await sql.records.reservationMembership.findFirstOrThrow({
    select: { confirmedAt: true, confirmedUntil: true },
  });
  const { confirmedAt, confirmedUntil } = confirmed;
  const nowMs = await readClockMs(sql);
  if (confirmedAt === null || confirmedUntil === null || nowMs < Number(confirmedAt)) return 0;
  return Math.max(0, Number(confirmedUntil) - nowMs);
}

/** Keeps what the store has, for a store that loses it. Doing it again changes nothing. */
export async function rememberGivenUp({ records }: RecordSql, givenUp: GivenUp): Promise<void> {
  const { datacenter, opened } = givenUp;
  await records.reservationGivenUp.createMany({
    data: { datacenter, givenUp: { ...givenUp, opened: opened === null ? null : { ...opened } } },
    skipDuplicates: true,
  });
}

/** The datacenters whose keys may be given other homes, as far as this database knows. */
export async function readGivenUp({ records }: RecordSql): Promise<GivenUp[]> {
  // Only what is remembered above is in the column.
  const rows: readonly { readonly givenUp: unknown }[] = await records.reservationGivenUp.findMany({
    orderBy: { datacenter: 'asc' },
  });
  return rows.map(({ givenUp }) => givenUp as GivenUp);
}
