import { DRONE_STATUSES, type DroneStatus } from '@leasehold/keys-core';
import { Option, type Command } from 'commander';
import type { Cli } from '../../cli.ts';
import type { DroneView } from '../../views.ts';
import { pageText, withDatacenters, withPage, type PageOptions } from '../../options.ts';
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

interface DronesLsOptions extends PageOptions {
  readonly status?: DroneStatus;
  readonly program?: string;
  readonly datacenter?: string;
}

/** `leasehold drones ls`. */
export function addDronesLs(cli: Cli, parent: Command): void {
  withDatacenters(
    withPage(cli.leaf(parent, 'ls', 'List drones and when they last sent a heartbeat')),
  )
    .addOption(new Option('--status <status>', 'in this status').choices(DRONE_STATUSES))
    .option('--program <program>', 'that offer this program')
    .action(async (options: DronesLsOptions) => {
      const page = await cli.client().drones.list.query(options);
      cli.show(page, () => pageText(page, 'No drones.', (drones) => tableText(drones, COLUMNS)));
    });
}

/** How long ago a drone sent a heartbeat, by the database's clock. */
export function heartbeatText(drone: Pick<DroneView, 'heartbeatAgeMs'>): string {
  return drone.heartbeatAgeMs === null ? 'never' : `${durationText(drone.heartbeatAgeMs)} ago`;
}
