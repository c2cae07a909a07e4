import { Option, type Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { pageText, withDatacenters, withPage, type PageOptions } from '../../options.ts';
import { agoText } from '../../output/duration.ts';
import { printable, printableOr } from '../../output/printable.ts';
import { tableText, type Column } from '../../output/table.ts';
import { reservationKeyText } from '../../arguments/reservation-key.ts';
import type { ReservationView } from '../../views.ts';

const STATES = ['active', 'moved'] as const;

interface ReservationsLsOptions extends PageOptions {
  readonly namespace?: string;
  readonly prefix?: string;
  readonly state?: (typeof STATES)[number];
  readonly datacenter?: string;
}

/** `leasehold reservations ls`. */
export function addReservationsLs(cli: Cli, parent: Command): void {
  withDatacenters(
    withPage(cli.leaf(parent, 'ls', 'List the reservations that a datacenter has, or once had')),
  )
    .option('--namespace <namespace>', 'of keys in this namespace and its children')
    .option('--prefix <text>', 'of keys whose name begins with this')
    .addOption(new Option('--state <state>', 'in this state').choices(STATES))
    .action(async (options: ReservationsLsOptions) => {
      const page = await cli.client().reservations.list.query(options);
      const columns = columnsAt(page.asOf);
      cli.show(page, () =>
        pageText(page, 'No reservations.', (items) => tableText(items, columns)),
      );
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
