import type { ReservationDetail } from '@leasehold/client';
import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import type { PendingMove } from '../../views.ts';
import { printable } from '../../output/printable.ts';
import { detailsText, tableText } from '../../output/table.ts';
import {
  reservationKeyOf,
  reservationKeyText,
  withReservationKey,
  type ReservationKeyOptions,
} from '../../arguments/reservation-key.ts';
import { notReserved } from './resolve.ts';

/** `leasehold reservations show`. */
export function addReservationsShow(cli: Cli, parent: Command): void {
  withReservationKey(
    cli.leaf(
      parent,
      'show [name]',
      'Show where a key lives and has lived, as each datacenter reports it',
    ),
  ).action(async (name: string | undefined, options: ReservationKeyOptions) => {
    const key = reservationKeyOf(name, options);
    const detail = await cli.client().reservations.get.query({ key });
    if (detail === null) throw notReserved(key);
    const { reservationId, datacenter } = detail;
    const move =
      detail.links.at(-1)?.state === 'active'
        ? await cli.client().reservations.pendingMove.query({ key, reservationId, datacenter })
        : null;
    cli.show({ ...detail, move }, () => detailText(detail, move));
  });
}

function detailText(
  { key, datacenter, links }: ReservationDetail,
  move: PendingMove | null,
): string {
  const head = detailsText([
    ['key', reservationKeyText(key)],
    ['datacenter', datacenter],
    ...(move === null ? [] : [['move', moveText(move)] as const]),
  ]);
  const chain = tableText(links, [
    { head: 'datacenter', text: (link) => link.datacenter },
    { head: 'state', text: (link) => link.state },
    { head: 'reservation', text: (link) => printable(link.reservationId) },
  ]);
  return `${head}\n\n${chain}`;
}

function moveText({ toDatacenter, askedBy, heldBy, failure }: PendingMove): string {
  const asked = `to ${toDatacenter}, asked for by ${printable(askedBy)}`;
  if (failure !== null) return `${asked}; ended: ${failure}`;
  return heldBy === null ? `${asked}; now` : `${asked}; waits for ${printable(heldBy.holder)}`;
}
