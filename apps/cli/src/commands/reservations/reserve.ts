import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import {
  reservationKeyOf,
  reservationKeyText,
  withReservationKey,
  type ReservationKeyOptions,
} from '../../arguments/reservation-key.ts';

const HELP = `
The first connect of a key reserves it too. Use this to choose its datacenter before that. Only
\`leasehold reservations move\` changes it later.`;

/** `leasehold reservations reserve`. */
export function addReservationsReserve(cli: Cli, parent: Command): void {
  withReservationKey(cli.leaf(parent, 'reserve [name]', 'Decide which datacenter a key lives in'))
    .option('--datacenter <name>', 'the datacenter; by default the controller’s own')
    .addHelpText('after', HELP)
    .action(
      async (
        name: string | undefined,
        options: ReservationKeyOptions & { readonly datacenter?: string },
      ) => {
        const key = reservationKeyOf(name, options);
        const { datacenter } = options;
        const answer = await cli.client().reservations.reserve.mutate({ key, datacenter });
        cli.show(answer, () =>
          answer.outcome === 'reserved'
            ? `${reservationKeyText(key)} lives in ${answer.datacenter} from now on.`
            : `${reservationKeyText(key)} lives in ${answer.datacenter} already.`,
        );
      },
    );
}
