/** Moves that were asked for, and are carried out by the controllers of the datacenter that is left. */
import type { PendingMove } from '../reservation-types.ts';
import { reservationKeyText, type ReservationKey } from '../../kernel/resource/reservation.ts';
import { C, fragment, type Sql } from '../../postgres/sql.ts';

/** A move that was asked for; instants are epoch milliseconds. */
export interface PendingMoveRow extends Omit<PendingMove, 'key' | 'askedAt' | 'heldBy'> {
  readonly key: string;
  readonly askedAt: number;
  /** The grant that has to end first; null when the key was free. */
  readonly waitsFor: string | null;
  /** Who holds the key now, or held it and may still act; all null when nobody does. */
  readonly leaseId: string | null;
  readonly holder: string | null;
  readonly heldUntil: number | null;
}

/** Identifies a request: a newer one for the same key has another time. */
type PendingMoveRef = Pick<PendingMoveRow, 'reservationId' | 'askedAt'>;

const PENDING_MOVE = fragment`
  select r.key, r.reservation_id as "reservationId", r.move_to as "toDatacenter",
    r.move_asked_by as "askedBy", extract(epoch from r.move_asked_at)::float8 * 1000 as "askedAt",
    r.move_asked_for as reason, r.move_waits_for as "waitsFor", r.move_failure as failure,
    l.lease_id as "leaseId", l.holder,
    extract(epoch from greatest(l.expires_at, l.stops_by))::float8 * 1000 as "heldUntil"
  from reservation r
  left join lease l
    on l.face = 'key' and l.namespace = r.namespace and l.name = r.name
    and l.home_reservation = r.reservation_id
    and (
      (l.released_at is null and l.end_reason is null and l.expires_at > clock_timestamp())
      or l.stops_by > clock_timestamp()
    )`;

/**
 * Asks for a move, in place of an earlier request for the same key.
 * @returns false when the reservation is not the active home of the key. **Locks** its row.
 */
export async function askForMove(
  sql: Sql<'general'>,
  move: Pick<
    PendingMoveRow,
    'reservationId' | 'toDatacenter' | 'askedBy' | 'reason' | 'waitsFor'
  > & {
    readonly key: ReservationKey;
  },
): Promise<boolean> {
  const rows = await sql.$queryRaw<{ one: number }[]>`
    update reservation
    set move_to = ${move.toDatacenter}, move_asked_by = ${move.askedBy},
      move_asked_at = clock_timestamp(), move_asked_for = ${move.reason},
      move_waits_for = ${move.waitsFor}::uuid, move_failure = null
    where reservation_id = ${move.reservationId} ${C} and key = ${reservationKeyText(move.key)} ${C}
      and state = 'active'
    returning 1 as one`;
  return rows.length > 0;
}

/** The request of a reservation; null without one, and when the key has arrived. */
export async function readPendingMove(
  sql: Sql<'general' | 'reads'>,
  reservationId: string,
  key: ReservationKey,
): Promise<PendingMoveRow | null> {
  const [row] = await sql.$queryRaw<PendingMoveRow[]>`
    ${PENDING_MOVE}
    where r.reservation_id = ${reservationId} ${C} and r.key = ${reservationKeyText(key)} ${C}
      and r.move_to is not null`;
  return row ?? null;
}

/**
 * Requests that have not ended, without those whose holder still has the key: the oldest first, from the
 * one after `after`. Index: `reservation_pending_move_idx`, in its order.
 */
export async function readReadyMoves(
  sql: Sql<'general'>,
  { after, limit }: { readonly after: PendingMoveRef | null; readonly limit: number },
): Promise<PendingMoveRow[]> {
  return sql.$queryRaw<PendingMoveRow[]>`
    ${PENDING_MOVE}
    where r.move_to is not null and r.move_failure is null
      and (l.lease_id is null or l.lease_id is distinct from r.move_waits_for)
      and (r.move_asked_at, r.reservation_id ${C}) > (
        coalesce(to_timestamp(${after?.askedAt ?? null}::float8 / 1000)::timestamptz(3), '-infinity'),
        ${after?.reservationId ?? ''} ${C})
    order by r.move_asked_at, r.reservation_id ${C}
    limit ${limit}`;
}

/** Ends a request, because the key has arrived. A request that has replaced it meanwhile stays. */
export async function endPendingMove(sql: Sql<'general'>, move: PendingMoveRef): Promise<void> {
  await sql.$queryRaw`
    update reservation
    set move_to = null, move_asked_by = null, move_asked_at = null, move_asked_for = null,
      move_waits_for = null, move_failure = null
    where reservation_id = ${move.reservationId} ${C}
      and move_asked_at = to_timestamp(${move.askedAt}::float8 / 1000)::timestamptz(3)
    returning 1 as ended`;
}

/**
 * Ends a request without a move; it is kept for those who follow it.
 * @returns false when it had ended, or was replaced meanwhile.
 */
export async function failPendingMove(
  sql: Sql<'general'>,
  move: PendingMoveRef,
  failure: string,
): Promise<boolean> {
  const rows = await sql.$queryRaw<{ one: number }[]>`
    update reservation
    set move_failure = ${failure}
    where reservation_id = ${move.reservationId} ${C} and move_to is not null and move_failure is null
      and move_asked_at = to_timestamp(${move.askedAt}::float8 / 1000)::timestamptz(3)
    returning 1 as one`;
  return rows.length > 0;
}
