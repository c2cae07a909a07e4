import type { ControllerApi, ReservationDetail } from '@leasehold/client';
import { keyNameOf } from '@leasehold/keys-core';
import { Option, type Command } from 'commander';
import type { Cli } from '../cli.ts';
import type { PendingMove, ReservationListInput, ReservationView } from '../controller-api.ts';
import { refusal } from '../failures.ts';
import { withDatacenters, withPage, withReason } from '../options.ts';
import { isHeld } from '../output/grant-text.ts';
import {
  agoText,
  detailsText,
  printable,
  printableOr,
  tableText,
  type Column,
} from '../output/text.ts';
import {
  reservationKeyOf,
  reservationKeyText,
  withReservationKey,
  type ReservationKeyOptions,
} from '../scope.ts';

/** `leasehold reservations`. */
export function addReservations(cli: Cli, program: Command): void {
  const parent = program
    .command('reservations')
    .description('Show which datacenter keys live in, and move them');
  addReserve(cli, parent);
  addResolve(cli, parent);
  addMove(cli, parent);
  addCancelMove(cli, parent);
  addLs(cli, parent);
  addShow(cli, parent);
}

const RESERVE_HELP = `
The first connect of a key reserves it too. Use this to choose its datacenter before that. Only
\`leasehold reservations move\` changes it later.`;

function addReserve(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'reserve [name]', 'Decide which datacenter a key lives in');
  const run = onKey(async (key, { datacenter }: { datacenter?: string }) => {
    const answer = await cli.client().reservations.reserve.mutate({ key, datacenter });
    const since = answer.outcome === 'reserved' ? 'from now on' : 'already';
    cli.show(answer, () => `${reservationKeyText(key)} lives in ${answer.datacenter} ${since}.`);
  });
  withReservationKey(command)
    .option('--datacenter <name>', 'the datacenter; by default the controller’s own')
    .addHelpText('after', RESERVE_HELP)
    .action(run);
}

function addResolve(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'resolve [name]', 'Show which datacenter a key lives in');
  const run = onKey(async (key, { fresh }: { fresh?: boolean }) => {
    const home = await homeOf(cli.client(), key, fresh);
    cli.show(home, () =>
      detailsText([
        ['key', reservationKeyText(key)],
        ['datacenter', home.datacenter],
        ['reservation', printable(home.reservationId)],
        ['moves', String(home.chain.length - 1)],
      ]),
    );
  });
  withReservationKey(command)
    .option('--fresh', 'ask that datacenter too: the controller may not know of a move yet')
    .action(run);
}

interface MoveOptions {
  readonly toDatacenter: string;
  readonly reason: string;
  readonly whenFree?: true;
}

const MOVE_HELP = `
Only a free key moves: revoke a held one first. With --when-free the controllers wait until its present
holder has gone, and move it then; "reservations show" tells how far that is. Its history stays in the old
datacenter. Its next backend starts in the new one, with a larger fencing token.

After an interrupted move nobody holds the key until the move is completed. Run the same command again,
or connect to the key: both complete it.`;

function addMove(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'move [name]', 'Move a free key to another datacenter');
  const run = onKey(async (key, { toDatacenter, reason, whenFree }: MoveOptions) => {
    if (whenFree === true) return requestMove(cli, { key, toDatacenter, reason });
    const answer = await cli.client().reservations.move.mutate({ key, toDatacenter, reason });
    cli.show(answer, () => `${reservationKeyText(key)} lives in ${answer.datacenter} now.`);
  });
  withReason(withReservationKey(command), true)
    .requiredOption('--to-datacenter <name>', 'the datacenter to move it to')
    .option('--when-free', 'move it when its present holder has gone, and do not wait for that')
    .addHelpText('after', MOVE_HELP)
    .action(run);
}

/** Asks the key's home to move it when the present grant has ended; it waits for no later grant. */
async function requestMove(
  cli: Cli,
  move: { readonly key: string[]; readonly toDatacenter: string; readonly reason: string },
): Promise<void> {
  const { key, toDatacenter } = move;
  const client = cli.client();
  const { reservationId, datacenter } = await homeOf(client, key, true);
  const named = keyNameOf(key);
  const grant = named === undefined ? null : await client.keys.get.query({ ...named, datacenter });
  const held = grant !== null && isHeld(grant) ? grant : null;
  const request = { ...move, reservationId, datacenter, waitsFor: held?.leaseId ?? null };
  const answer = await client.reservations.requestMove.mutate(request);
  cli.show(answer, () =>
    held === null
      ? `${reservationKeyText(key)} moves to ${toDatacenter} now.`
      : `${reservationKeyText(key)} moves to ${toDatacenter} when ${printable(held.holder)} no longer holds it.`,
  );
}

function addCancelMove(cli: Cli, parent: Command): void {
  const about = 'Cancel a move that waits for the holder of the key';
  const run = onKey(async (key) => {
    const client = cli.client();
    const { reservationId, datacenter } = await homeOf(client, key, true);
    const answer = await client.reservations.cancelMove.mutate({ key, reservationId, datacenter });
    cli.show(answer, () =>
      answer.outcome === 'cancelled'
        ? `The move is cancelled: ${reservationKeyText(key)} stays in ${datacenter}.`
        : `No move of ${reservationKeyText(key)} waits.`,
    );
  });
  withReservationKey(cli.leaf(parent, 'cancel-move [name]', about)).action(run);
}

function addLs(cli: Cli, parent: Command): void {
  withDatacenters(
    withPage(cli.leaf(parent, 'ls', 'List the reservations that a datacenter has, or once had')),
  )
    .option('-n, --namespace <namespace>', 'of keys in this namespace and its children')
    .option('--prefix <text>', 'of keys whose name begins with this')
    .option('--contains <text>', 'of keys whose name as it is printed contains this')
    .addOption(new Option('--state <state>', 'in this state').choices(['active', 'moved']))
    .action(async (options: ReservationListInput) => {
      const page = await cli.client().reservations.list.query(options);
      cli.showPage(page, 'No reservations.', columnsAt(page.asOf));
    });
}

const columnsAt = (asOf: string): readonly Column<ReservationView>[] => [
  { head: 'key', text: ({ key }) => reservationKeyText(key) },
  { head: 'datacenter', text: ({ datacenter }) => datacenter },
  { head: 'state', text: ({ state }) => state },
  { head: 'moves', text: ({ chain }) => String(chain.length - 1), align: 'right' },
  { head: 'since', text: ({ movedAt, activatedAt }) => agoText(movedAt ?? activatedAt, asOf) },
  { head: 'by', text: ({ movedBy, activatedBy }) => printable(movedBy ?? activatedBy) },
  { head: 'reason', text: ({ moveReason }) => printableOr(moveReason, '') },
  { head: 'moved to', text: ({ movedTo }) => printableOr(movedTo, '') },
  { head: 'reservation', text: ({ reservationId }) => printable(reservationId) },
];

function addShow(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'show [name]',
    'Show where a key lives and has lived, as each datacenter reports it',
  );
  const run = onKey(async (key) => {
    const { reservations } = cli.client();
    const detail = await reservations.get.query({ key });
    if (detail === null) throw missingReservation(key);
    const { reservationId, datacenter } = detail;
    const move =
      detail.links.at(-1)?.state === 'active'
        ? await reservations.pendingMove.query({ key, reservationId, datacenter })
        : null;
    cli.show({ ...detail, move }, () => detailText(detail, move));
  });
  withReservationKey(command).action(run);
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

/** The action of a command on the key that its arguments name. */
function onKey<Options>(
  act: (key: string[], options: Options) => Promise<void>,
): (name: string | undefined, options: Options & ReservationKeyOptions) => Promise<void> {
  return (name, options) => act(reservationKeyOf(name, options), options);
}

/** Where a key lives, asked of that datacenter itself if `fresh`. @throws {CliFailure} when nowhere. */
async function homeOf(client: ControllerApi, key: string[], fresh: boolean | undefined) {
  const home = await client.reservations.resolve.query({ key, fresh });
  if (home.outcome === 'not_found') throw missingReservation(key);
  return home;
}

/** Nothing is reserved under this key, or it may not be seen. */
function missingReservation(key: readonly string[]): Error {
  return refusal(
    'reservation.not_found',
    `Nothing is reserved under ${reservationKeyText(key)}.`,
    'The first connect that starts something reserves a key. Names are compared byte for byte.',
  );
}
