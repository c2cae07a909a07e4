import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { refusal } from '../../failures/failure.ts';
import { printable } from '../../output/printable.ts';
import { detailsText } from '../../output/table.ts';
import {
  reservationKeyOf,
  reservationKeyText,
  withReservationKey,
  type ReservationKeyOptions,
} from '../../arguments/reservation-key.ts';

/** `leasehold reservations resolve`. */
export function addReservationsResolve(cli: Cli, parent: Command): void {
  withReservationKey(cli.leaf(parent, 'resolve [name]', 'Show which datacenter a key lives in'))
    .option('--fresh', 'ask that datacenter too: the controller may not know of a move yet')
    .action(
      async (
        name: string | undefined,
        options: ReservationKeyOptions & { readonly fresh?: boolean },
      ) => {
        const key = reservationKeyOf(name, options);
        const { fresh } = options;
        const answer = await cli.client().reservations.resolve.query({ key, fresh });
        if (answer.outcome === 'not_found') throw notReserved(key);
        cli.show(answer, () =>
          detailsText([
            ['key', reservationKeyText(key)],
            ['datacenter', answer.datacenter],
            ['reservation', printable(answer.reservationId)],
            ['moves', String(answer.chain.length - 1)],
          ]),
        );
      },
    );
}

/** Nothing is reserved under this key, or it may not be seen. */
export function notReserved(key: readonly string[]): Error {
  return refusal(
    'reservation.not_found',
    `Nothing is reserved under ${reservationKeyText(key)}.`,
    'The first connect that starts something reserves a key. Names are compared byte for byte.',
  );
}
