import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import {
  reservationKeyOf,
  reservationKeyText,
  withReservationKey,
  type ReservationKeyOptions,
} from '../../arguments/reservation-key.ts';
import { notReserved } from './resolve.ts';

/** `leasehold reservations cancel-move`. */
export function addReservationsCancelMove(cli: Cli, parent: Command): void {
  withReservationKey(
    cli.leaf(parent, 'cancel-move [name]', 'Cancel a move that waits for the holder of the key'),
  ).action(async (name: string | undefined, options: ReservationKeyOptions) => {
    const key = reservationKeyOf(name, options);
    const client = cli.client();
    const home = await client.reservations.resolve.query({ key, fresh: true });
    if (home.outcome === 'not_found') throw notReserved(key);
    const { reservationId, datacenter } = home;
    const answer = await client.reservations.cancelMove.mutate({ key, reservationId, datacenter });
    cli.show(answer, () =>
      answer.outcome === 'cancelled'
        ? `The move is cancelled: ${reservationKeyText(key)} stays in ${datacenter}.`
        : `No move of ${reservationKeyText(key)} waits.`,
    );
  });
}
