import { keyNameOf } from '@leasehold/keys-core';
import { routes } from '~/lib/routes.ts';
import { keyLabel } from '~/resources/names.ts';
import { column, type Column } from '~/ui/table/column.ts';
import { Link, LookBadge, Mono, RelativeTime, Under, VisibleText } from '~/ui/text.tsx';
import { ChainPath } from './chain/chain-path.tsx';
import { KeyText } from './key-text.tsx';
import type { ReservationItem } from './reservation-item.ts';
import { RESERVATION_LOOKS } from './reservation-looks.ts';

/** A reservation with the time of the page that it is on. */
type ReservationRow = ReservationItem & { readonly asOf: string };

export const RESERVATION_COLUMNS: Column<ReservationRow>[] = [
  column('Namespace', { from: 'md' }, (reservation) => {
    const namespace = keyNameOf(reservation.key)?.namespace ?? '';
    return (
      <span title={namespace}>
        <VisibleText>{namespace || '–'}</VisibleText>
      </span>
    );
  }),
  column('Key', {}, (reservation) => <KeyCell reservation={reservation} />),
  column('State', {}, (reservation) => <LookBadge look={RESERVATION_LOOKS[reservation.state]} />),
  column('Chain', { from: 'sm' }, (reservation) => (
    <ChainPath chain={reservation.chain} movedTo={reservation.movedTo} />
  )),
  column('Activated', { from: 'md' }, (reservation) => (
    <RelativeTime at={reservation.activatedAt} asOf={reservation.asOf} />
  )),
  column('Left', { from: 'md' }, (reservation) =>
    reservation.movedAt === null ? (
      '–'
    ) : (
      <RelativeTime at={reservation.movedAt} asOf={reservation.asOf} />
    ),
  ),
  column('By', { from: 'lg' }, (reservation) => {
    const by = reservation.movedBy ?? reservation.activatedBy;
    return <Mono title={by}>{by}</Mono>;
  }),
];

function KeyCell({ reservation }: { readonly reservation: ReservationRow }) {
  const { key } = reservation;
  const namespace = keyNameOf(key)?.namespace ?? '';
  return (
    <>
      <Link href={routes.reservation(key)} title={keyLabel(key)}>
        <KeyText of={key} />
      </Link>
      {namespace === '' ? null : (
        <Under upTo="md">
          <VisibleText>{namespace}</VisibleText>
        </Under>
      )}
    </>
  );
}
