import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { withReason } from '../../options.ts';
import {
  reservationKeyOf,
  reservationKeyText,
  withReservationKey,
  type ReservationKeyOptions,
} from '../../reservation-key.ts';

interface MoveOptions extends ReservationKeyOptions {
  readonly to: string;
  readonly reason: string;
}

const HELP = `
Only a free key moves: revoke a held one first. What it leaves behind is its history; its next backend
is started in the new datacenter, with a greater fencing token.

A move that was cut short leaves the key with nobody, never with two. Give the same command again, or
connect to the key: both go on with it.`;

/** `leasehold reservations move`. */
export function addReservationsMove(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'move [name]', 'Move a free key to another datacenter');
  withReason(withReservationKey(command), true)
    .requiredOption('--to <datacenter>', 'where to')
    .addHelpText('after', HELP)
    .action(async (name: string | undefined, options: MoveOptions) => {
      const key = reservationKeyOf(name, options);
      const { to: toDatacenter, reason } = options;
      const answer = await cli.client().reservations.move.mutate({ key, toDatacenter, reason });
      cli.show(answer, () => `${reservationKeyText(key)} lives in ${answer.datacenter} now.`);
    });
}
