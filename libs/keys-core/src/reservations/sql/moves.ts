import { type AuditEntry, insertAudit } from '../../access/index.ts';
import {
  assertNoHoldOff,
  assertReadBack,
  ensureLeaseRow,
  grant,
  guardNow,
  readClock,
} from '../../grants/index.ts';
import { SYSTEM_ACTOR } from '../../kernel/access.ts';
import { LeaseError } from '../../kernel/errors.ts';
import type { Grant, GrantRequest } from '../../kernel/lease.ts';
import {
  keyNameOf,
  type ReservationKey,
  reservationKeyText,
  type ReservationPointer,
} from '../../kernel/reservation.ts';
import type { Named } from '../../kernel/resource.ts';
import { recordLostBackends } from '../../keys/index.ts';
import type { Store } from '../../postgres/open-store.ts';
import { C, type Fragment, fragment, onlyRow, readLeases, type Sql } from '../../postgres/sql.ts';
import type { PendingMove } from '../reservation-types.ts';
import { putPointer, readPointer } from './reservations.ts';

export interface MovePlan {
  readonly key: ReservationKey;
  readonly fromId: string;
  readonly toId: string;
  readonly actor: string;
  readonly reason: string;
  /** When the request was made that this carries out; undefined for a move that nobody has to request. */
  readonly askedAt?: number | undefined;
  /** What the audit says of it; undefined for a request, which is in the audit since it was made. */
  readonly entry?: AuditEntry | undefined;
}

export type MoveOutcome =
  | {
      readonly outcome: 'sealed';
      readonly pointer: ReservationPointer;
      readonly lostBackendIds: readonly string[];
    }
  /** It was left before: by another move, or by this one, repeated. */
  | { readonly outcome: 'moved'; readonly pointer: ReservationPointer }
  | { readonly outcome: 'held'; readonly holder: string; readonly remainingMs: number }
  /** It is not active here, so that there is nothing to leave. */
  | { readonly outcome: 'pending' }
  /** The request was cancelled, has failed, or was replaced by another. */
  | { readonly outcome: 'withdrawn' };

/** The grant of a move lives within its transaction alone: the shortest ladder that the table takes. */
const MOVE_LADDER = { renewAfterMs: 1, softAfterMs: 2, hardAfterMs: 3, ttlMs: 4 } as const;
/**
 * Leaves a reservation of this datacenter for another: a move is a grant.
 *
 * In one transaction the key is taken with the ordinary grant statement, so that only a free or an
 * expired key moves; the pointer is written, once and permanently; and the row stays sealed: it names the
 * new reservation, which is not one of this datacenter's, and the grant statement refuses it. Every
 * grant here is before this commit, and the new reservation is activated only after a read of the
 * committed pointer, so that every grant there is after it. The line of the audit is a part of it: a key
 * that has left is recorded, whatever fails afterwards.
 *
 * - **Locks**: the reservation's row, so that movers wait for each other, and what withdraws the request
 *   is either before this or finds the key gone; then the lease row.
 * - **The token floor** is the greater of the key's newest token and the time by this database's clock.
 */
export async function moveAway(store: Store, plan: MovePlan): Promise<MoveOutcome> {
  await store.witness.ready();
  return store.transitions.$transaction(async (tx) => {
    const [own] = await tx.$queryRaw<{ state: 'active' | 'moved'; isAsked: boolean | null }[]>`
      select state,
        move_failure is null and move_asked_at = ${askedAtOf(plan)} as "isAsked"
      from reservation
      where reservation_id = ${plan.fromId} ${C} and key = ${reservationKeyText(plan.key)} ${C}
      for update`;
    const known = await readPointer(tx, plan.fromId);
    if (own?.state === 'moved' && known !== undefined) return { outcome: 'moved', pointer: known };
    if (own?.state !== 'active') return { outcome: 'pending' };
    if (plan.askedAt !== undefined && own.isAsked !== true) return { outcome: 'withdrawn' };
    const named = keyNameOf(plan.key);
    if (named === undefined) {
      // No grant checks these for it.
      await assertNoHoldOff(store, tx);
      await assertReadBack(tx);
      return { outcome: 'sealed', pointer: await leave(tx, plan, '0'), lostBackendIds: [] };
    }
    await ensureLeaseRow(tx, { face: 'key', ...named });
    const taken = await take(tx, store, { plan, named });
    if (taken === undefined) return whyHeld(tx, store, named);
    const lostBackendIds =
      taken.previous === null ? [] : await recordLostBackends(tx, [taken.previous.leaseId]);
    await seal(tx, plan, taken.leaseId);
    return {
      outcome: 'sealed',
      pointer: await leave(tx, plan, taken.fencingToken),
      lostBackendIds,
    };
  });
}

async function take(
  tx: Sql<'transitions'>,
  store: Store,
  { plan, named }: { plan: MovePlan; named: Named },
): Promise<Grant | undefined> {
  const request: GrantRequest = {
    face: 'key',
    ...named,
    leaseId: store.ids.uuid(),
    holder: SYSTEM_ACTOR,
    principal: SYSTEM_ACTOR,
    tag: '',
    comment: null,
    metadata: null,
    ladder: MOVE_LADDER,
    actor: plan.actor,
    homeReservation: plan.fromId,
  };
  await readClock(store, tx);
  const sentAtMs = store.clock.nowMs();
  const { grants } = await grant(tx, [request], { guard: guardNow(store), onLocked: 'wait' });
  const own = grants.get(request.leaseId);
  if (own !== undefined) store.clockWatch.observe(own.asOf, sentAtMs, store.clock.nowMs());
  return own;
}

/** @throws {LeaseError} `grant.hold_off`, `reservation.store_unreachable`. */
async function whyHeld(
  tx: Sql<'transitions'>,
  store: Store,
  named: Named,
): Promise<Extract<MoveOutcome, { outcome: 'held' }>> {
  await assertNoHoldOff(store, tx);
  await assertReadBack(tx);
  const [row] = await readLeases(tx, [{ face: 'key', ...named }]);
  if (row === undefined) return { outcome: 'held', holder: '', remainingMs: 0 };
  const leftMs = Math.max(row.expiresAt, row.stopsBy ?? 0) - row.asOf;
  const remainingMs = Math.max(0, leftMs, store.clockWatch.doubtMs(row));
  return { outcome: 'held', holder: row.holder, remainingMs };
}

/** Ends the mover's own grant, and leaves the row with the new reservation's name on it. */
async function seal(tx: Sql<'transitions'>, plan: MovePlan, leaseId: string): Promise<void> {
  await tx.$queryRaw`
    with sealed as (
      update lease l
      set home_reservation = ${plan.toId}, released_at = clock_timestamp(), end_reason = 'released'
      where l.lease_id = ${leaseId}::uuid
      returning l.face, l.namespace, l.name, l.lease_id, l.fencing_token
    )
    insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, reason, detail)
    select s.face, s.namespace, s.name, s.lease_id, s.fencing_token, 'released', ${plan.actor},
      ${plan.reason}, jsonb_build_object('movedTo', ${plan.toId}::text)
    from sealed s
    returning id::text`;
}

/** Writes the pointer, that the reservation was left, and the line of the audit. */
async function leave(tx: Sql<'transitions'>, plan: MovePlan, token: string) {
  const { tokenFloor } = onlyRow(
    await tx.$queryRaw<{ tokenFloor: string }[]>`
      select greatest(${token}::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)::text
        as "tokenFloor"`,
  );
  const asked = { fromId: plan.fromId, toId: plan.toId, tokenFloor };
  const pointer = await putPointer(tx, asked);
  if (pointer.toId !== plan.toId) {
    // Read back from the store while this went on: nothing of this move is kept.
    throw new LeaseError('reservation.moved_meanwhile');
  }
  await tx.$queryRaw`
    update reservation
    set state = 'moved', moved_at = clock_timestamp(), moved_by = ${plan.actor},
      move_reason = ${plan.reason}
    where reservation_id = ${plan.fromId} ${C}
    returning 1 as moved`;
  if (plan.entry !== undefined) await insertAudit(tx, plan.entry);
  return pointer;
}

// Moves that were asked for, and are carried out by the controllers of the datacenter that is left.

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
  /** Where the key has gone since; null while it is here. */
  readonly movedTo: string | null;
  readonly tokenFloor: string | null;
}

/** Identifies a request: a newer one for the same key has another time. */
type PendingMoveRef = Pick<PendingMoveRow, 'reservationId' | 'askedAt'>;

/** The time that identifies a request, as its column has it. */
function askedAtOf({ askedAt }: { readonly askedAt?: number | null | undefined }): Fragment {
  return fragment`to_timestamp(${askedAt ?? null}::float8 / 1000)::timestamptz(3)`;
}

const PENDING_MOVE = fragment`
  select r.key, r.reservation_id as "reservationId", r.move_to as "toDatacenter",
    r.move_asked_by as "askedBy", extract(epoch from r.move_asked_at)::float8 * 1000 as "askedAt",
    r.move_asked_for as reason, r.move_waits_for as "waitsFor", r.move_failure as failure,
    l.lease_id as "leaseId", l.holder,
    extract(epoch from greatest(l.expires_at, l.stops_by))::float8 * 1000 as "heldUntil",
    p.to_id as "movedTo", p.token_floor::text as "tokenFloor"
  from reservation r
  left join reservation_pointer p on p.from_id = r.reservation_id and r.state = 'moved'
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
        coalesce(${askedAtOf({ askedAt: after?.askedAt })}, '-infinity'),
        ${after?.reservationId ?? ''} ${C})
    order by r.move_asked_at, r.reservation_id ${C}
    limit ${limit}`;
}

/**
 * Ends a request, because the key has arrived. A request that has replaced it meanwhile stays, and so does
 * one that has ended otherwise.
 */
export async function endPendingMove(sql: Sql<'general'>, move: PendingMoveRef): Promise<void> {
  await sql.$queryRaw`
    update reservation
    set move_to = null, move_asked_by = null, move_asked_at = null, move_asked_for = null,
      move_waits_for = null, move_failure = null
    where reservation_id = ${move.reservationId} ${C} and move_failure is null
      and move_asked_at = ${askedAtOf(move)}
    returning 1 as ended`;
}

/** Which requests end without a move. */
const ENDING = {
  /** The key has not left. */
  here: fragment`state = 'active'`,
  /** The key has not left for where the request wanted it: then only its arrival is missing. */
  notOnItsWay: fragment`(
    state = 'active' or exists (
      select from reservation_pointer p
      where p.from_id = reservation.reservation_id
        and split_part(p.to_id, '.', 1) <> reservation.move_to ${C}
    )
  )`,
  any: fragment`true`,
} as const;

/**
 * Ends a request without a move; it is kept for those who follow it.
 * @returns false when it had ended, or was replaced meanwhile, or the key is not where `ending` wants it.
 */
export async function failPendingMove(
  sql: Sql<'general'>,
  move: PendingMoveRef,
  { failure, ending }: { readonly failure: string; readonly ending: keyof typeof ENDING },
): Promise<boolean> {
  const rows = await sql.$queryRaw<{ one: number }[]>`
    update reservation
    set move_failure = ${failure}
    where reservation_id = ${move.reservationId} ${C} and move_to is not null and move_failure is null
      and move_asked_at = ${askedAtOf(move)} and ${ENDING[ending]}
    returning 1 as one`;
  return rows.length > 0;
}
