import { keyNameOf } from '@leasehold/keys-core';
import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { withReason } from '../../options.ts';
import { printable } from '../../output/printable.ts';
import { notReserved } from './resolve.ts';
import {
  reservationKeyOf,
  reservationKeyText,
  withReservationKey,
  type ReservationKeyOptions,
} from '../../arguments/reservation-key.ts';

interface MoveOptions extends ReservationKeyOptions {
  readonly to: string;
  readonly reason: string;
  readonly whenFree?: true;
}

const HELP = `
Only a free key moves: revoke a held one first. With --when-free the controllers wait until its present
holder has gone, and move it then; "reservations show" tells how far that is. Its history stays in the old
datacenter. Its next backend starts in the new one, with a larger fencing token.

After an interrupted move nobody holds the key until the move is completed. Run the same command again,
or connect to the key: both complete it.`;

/** `leasehold reservations move`. */
export function addReservationsMove(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'move [name]', 'Move a free key to another datacenter');
  withReason(withReservationKey(command), true)
    .requiredOption('--to <datacenter>', 'the datacenter to move it to')
    .option('--when-free', 'move it when its present holder has gone, and do not wait for that')
    .addHelpText('after', HELP)
    .action(async (name: string | undefined, options: MoveOptions) => {
      const key = reservationKeyOf(name, options);
      const { to: toDatacenter, reason, whenFree } = options;
      if (whenFree === true) {
        await requestMove(cli, { key, toDatacenter, reason });
        return;
      }
      const answer = await cli.client().reservations.move.mutate({ key, toDatacenter, reason });
      cli.show(answer, () => `${reservationKeyText(key)} lives in ${answer.datacenter} now.`);
    });
}

/** Asks the key's home to move it when the present grant has ended; it waits for no later grant. */
async function requestMove(
  cli: Cli,
  move: { readonly key: string[]; readonly toDatacenter: string; readonly reason: string },
): Promise<void> {
  const { key, toDatacenter } = move;
  const client = cli.client();
  const home = await client.reservations.resolve.query({ key, fresh: true });
  if (home.outcome === 'not_found') throw notReserved(key);
  const { reservationId, datacenter } = home;
  const named = keyNameOf(key);
  const grant = named === undefined ? null : await client.keys.get.query({ ...named, datacenter });
  const held = grant === null || grant.phase === 'free' || grant.phase === 'expired' ? null : grant;
  const request = { ...move, reservationId, datacenter, waitsFor: held?.leaseId ?? null };
  const answer = await client.reservations.requestMove.mutate(request);
  cli.show(answer, () =>
    held === null
      ? `${reservationKeyText(key)} moves to ${toDatacenter} now.`
      : `${reservationKeyText(key)} moves to ${toDatacenter} when ${printable(held.holder)} no longer holds it.`,
  );
}
