import { parseReservationKey } from '../kernel/resource/reservation.ts';
import type { Store } from '../postgres/open-store.ts';
import { listReservations } from './sql/reservation-list.ts';
import { isoOf } from '../postgres/rows.ts';
import type { Caller, Page } from '../kernel/face-types.ts';
import type { ReservationListInput, ReservationView } from './reservation-types.ts';

/** A page of the reservations of this datacenter, as far as the caller may see them. */
export async function reservationPage(
  store: Pick<Store, 'reads' | 'datacenter'>,
  input: ReservationListInput,
  caller: Caller,
): Promise<Page<ReservationView>> {
  const { items, nextCursor } = await listReservations(store, input, caller.namespaces);
  return {
    items: items.map((row) => ({
      ...row,
      key: parseReservationKey(row.key),
      datacenter: store.datacenter,
      chain: [...row.chain, row.reservationId],
      activatedAt: isoOf(row.activatedAt),
      movedAt: row.movedAt === null ? null : isoOf(row.movedAt),
    })),
    nextCursor,
  };
}
