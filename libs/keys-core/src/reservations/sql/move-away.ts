import type { Named } from '../../kernel/resource/resource.ts';
import { SYSTEM_ACTOR } from '../../kernel/access/actor.ts';
import { LeaseError } from '../../kernel/errors/index.ts';
import type { Grant, GrantRequest } from '../../kernel/lease/outcomes.ts';
import {
  keyNameOf,
  reservationKeyText,
  type ReservationKey,
  type ReservationPointer,
} from '../../kernel/resource/reservation.ts';
import {
  assertNoHoldOff,
  assertReadBack,
  grant,
  guardNow,
  ensureLeaseRow,
  readClock,
} from '../../grants/index.ts';
import { recordLostBackends } from '../../keys/index.ts';
import type { Store } from '../../postgres/open-store.ts';
import { C, onlyRow, readLeases, type Sql } from '../../postgres/sql.ts';
import { putPointer, readPointer } from './home-rows.ts';

export interface MovePlan {
  readonly key: ReservationKey;
  readonly fromId: string;
  readonly toId: string;
  readonly actor: string;
  readonly reason: string;
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
  | { readonly outcome: 'pending' };

/** The grant of a move lives within its transaction alone: the shortest ladder that the table takes. */
const MOVE_LADDER = { renewAfterMs: 1, softAfterMs: 2, hardAfterMs: 3, ttlMs: 4 } as const;
/**
 * Leaves a reservation of this datacenter for another: a move is a grant.
 *
 * In one transaction the key is taken with the ordinary grant statement, so that only a free or an
 * expired key moves; the pointer is written, once and permanently; and the row stays sealed: it names the
 * new reservation, which is not one of this datacenter's, and the grant statement refuses it. Every
 * grant here is before this commit, and the new reservation is activated only after a read of the
 * committed pointer, so that every grant there is after it.
 *
 * - **Locks**: the reservation's row, so that movers wait for each other; then the lease row.
 * - **The token floor** is the greater of the key's newest token and the time by this database's clock.
 */
export async function moveAway(store: Store, plan: MovePlan): Promise<MoveOutcome> {
  await store.witness.ready();
  return store.transitions.$transaction(async (tx) => {
    const [own] = await tx.$queryRaw<{ state: 'active' | 'moved' }[]>`
      select state from reservation where reservation_id = ${plan.fromId} ${C} and key = ${reservationKeyText(plan.key)} ${C}
      for update`;
    const known = await readPointer(tx, plan.fromId);
    if (own?.state === 'moved' && known !== undefined) return { outcome: 'moved', pointer: known };
    if (own?.state !== 'active') return { outcome: 'pending' };
    const named = keyNameOf(plan.key);
    if (named === undefined) {
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

/** Writes the pointer, and that the reservation was left. */
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
  return pointer;
}
