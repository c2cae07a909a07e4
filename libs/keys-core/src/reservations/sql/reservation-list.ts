import { parseReservationKey } from '../../kernel/resource/reservation.ts';
import type { Count, FilterOf, Page } from '../../kernel/face-types.ts';
import type { ReservationListInput, ReservationView } from '../reservation-types.ts';
import { containsText, foldedOf, withinLimits, withinNamespace } from '../../lists/index.ts';
import type { Store } from '../../postgres/open-store.ts';
import { boundedCount } from '../../postgres/paging/bounded-count.ts';
import { decodeCursor, pageOf } from '../../postgres/paging/page-cursor.ts';
import { C, type Fragment, fragment, isoOf, joinFragments } from '../../postgres/sql.ts';

/** A reservation of this datacenter; instants are epoch milliseconds. */
interface ReservationRow extends Omit<
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
  const rows = await store.reads.$queryRaw<ReservationRow[]>`
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

function viewOf({ datacenter }: Pick<Store, 'datacenter'>, row: ReservationRow): ReservationView {
  return {
    ...row,
    key: parseReservationKey(row.key),
    datacenter,
    chain: [...row.chain, row.reservationId],
    activatedAt: isoOf(row.activatedAt),
    movedAt: row.movedAt === null ? null : isoOf(row.movedAt),
  };
}
