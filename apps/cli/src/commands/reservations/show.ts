import type { ReservationDetail } from '@leasehold/client';
import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
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
    cli.show(detail, () => detailText(detail));
  });
}

function detailText({ key, datacenter, links }: ReservationDetail): string {
  const head = detailsText([
    ['key', reservationKeyText(key)],
    ['datacenter', datacenter],
  ]);
  const chain = tableText(links, [
    { head: 'datacenter', text: (link) => link.datacenter },
    { head: 'state', text: (link) => link.state },
    { head: 'reservation', text: (link) => printable(link.reservationId) },
  ]);
  return `${head}\n\n${chain}`;
}
