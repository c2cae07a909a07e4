import { DRONE_STATUSES, type DroneStatus } from '@leasehold/keys-core';
import { Option, type Command } from 'commander';
import type { Cli } from '../../cli.ts';
import type { DroneView } from '../../views.ts';
import { moreText, withPage, type PageOptions } from '../../options.ts';
import { durationText } from '../../output/duration.ts';
import { printable } from '../../output/printable.ts';
import { tableText, type Column } from '../../output/table.ts';

const COLUMNS: readonly Column<DroneView>[] = [
  { head: 'drone', text: (drone) => printable(drone.droneId) },
  { head: 'status', text: (drone) => drone.status },
  { head: 'heartbeat', text: (drone) => heartbeatText(drone), align: 'right' },
  {
    head: 'backends',
    text: (drone) => `${String(drone.backendCount)} of ${String(drone.capacity)}`,
    align: 'right',
  },
  { head: 'programs', text: (drone) => drone.programs.map((program) => program.name).join(' ') },
  { head: 'datacenter', text: (drone) => drone.datacenter },
  { head: 'version', text: (drone) => printable(drone.version) },
];

/** `leasehold drones ls`. */
export function addDronesLs(cli: Cli, parent: Command): void {
  withPage(cli.leaf(parent, 'ls', 'List drones and when they were last heard from'))
    .addOption(new Option('--status <status>', 'in this status').choices(DRONE_STATUSES))
    .option('--program <program>', 'that offer this program')
    .action(async (options: PageOptions & { status?: DroneStatus; program?: string }) => {
      const { status, program, limit, cursor } = options;
      const page = await cli.client().drones.list.query({ status, program, limit, cursor });
      cli.show(page, () =>
        page.items.length === 0
          ? 'No drones.'
          : `${tableText(page.items, COLUMNS)}${moreText(page.nextCursor)}`,
      );
    });
}

/** How long ago a drone was heard from, by the database's clock. */
export function heartbeatText(drone: Pick<DroneView, 'heartbeatAgeMs'>): string {
  return drone.heartbeatAgeMs === null ? 'never' : `${durationText(drone.heartbeatAgeMs)} ago`;
}
