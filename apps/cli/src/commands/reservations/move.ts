import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { withReason } from '../../options.ts';
import {
  reservationKeyOf,
  reservationKeyText,
  withReservationKey,
  type ReservationKeyOptions,
} from '../../arguments/reservation-key.ts';

interface MoveOptions extends ReservationKeyOptions {
  readonly to: string;
  readonly reason: string;
}

const HELP = `
Only a free key moves: revoke a held one first. Its history stays in the old datacenter. Its next
backend starts in the new one, with a larger fencing token.

After an interrupted move nobody holds the key until the move is completed. Run the same command again,
or connect to the key: both complete it.`;

/** `leasehold reservations move`. */
export function addReservationsMove(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'move [name]', 'Move a free key to another datacenter');
  withReason(withReservationKey(command), true)
    .requiredOption('--to <datacenter>', 'the datacenter to move it to')
    .addHelpText('after', HELP)
    .action(async (name: string | undefined, options: MoveOptions) => {
      const key = reservationKeyOf(name, options);
      const { to: toDatacenter, reason } = options;
      const answer = await cli.client().reservations.move.mutate({ key, toDatacenter, reason });
      cli.show(answer, () => `${reservationKeyText(key)} lives in ${answer.datacenter} now.`);
    });
}
