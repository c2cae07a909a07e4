import {
  keyNameOf,
  reservationKeyText,
  type ReservationKey,
  type ReservationPointer,
} from '../../kernel/resource/reservation.ts';
import type { Store } from '../../postgres/open-store.ts';
import { C, isoOf, type Sql } from '../../postgres/sql.ts';
import { ensureLeaseRow } from '../../grants/index.ts';

/** When a reservation was left, by whom and why. */
export interface Departure {
  /** ISO-8601. */
  readonly at: string;
  readonly by: string;
  readonly reason: string | null;
}

/** The status of a reservation in its own datacenter. */
export type ReservationStatus =
  /** Grants are given under it; `isJustActivated` when this call activated it. */
  | { readonly standing: 'active'; readonly isJustActivated?: boolean | undefined }
  /** It was left, permanently. */
  | {
      readonly standing: 'moved';
      readonly pointer: ReservationPointer;
      /** Undefined where its datacenter does not know: it was restored. */
      readonly left?: Departure | undefined;
    }
  /** Nothing is granted under it: it was never proven, or never made. */
  | { readonly standing: 'pending' };

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
