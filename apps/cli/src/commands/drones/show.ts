import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import type { DroneView } from '../../views.ts';
import { withDatacenter } from '../../options.ts';
import { agoText } from '../../output/duration.ts';
import { printable } from '../../output/printable.ts';
import { detailsText } from '../../output/table.ts';
import { heartbeatText } from './ls.ts';

/** `leasehold drones show`. */
export function addDronesShow(cli: Cli, parent: Command): void {
  withDatacenter(cli.leaf(parent, 'show <drone>', 'Show one drone')).action(
    async (droneId: string, { datacenter }: { datacenter?: string }) => {
      const drone = await cli.client().drones.get.query({ droneId, datacenter });
      cli.show(drone, () => droneText(drone));
    },
  );
}

function droneText(drone: DroneView): string {
  return detailsText([
    ['drone', printable(drone.droneId)],
    ['status', drone.status],
    ['heartbeat', heartbeatText(drone)],
    ['round trip', drone.roundTripMs === null ? '-' : `${drone.roundTripMs.toFixed(1)} ms`],
    ['registered', agoText(drone.registeredAt, drone.asOf)],
    ...(drone.lostAt === null ? [] : [['lost', agoText(drone.lostAt, drone.asOf)] as const]),
    ['draining', drone.draining ? 'yes' : 'no'],
    ['backends', `${String(drone.backendCount)} of ${String(drone.capacity)}`],
    ['programs', drone.programs.map(programText).join(', ') || '-'],
    ...isolationRows(drone),
    ['datacenter', drone.datacenter],
    ['version', printable(drone.version)],
    ['session', String(drone.session)],
    ['clock id', drone.clockId],
  ]);
}

function isolationRows({ isolation }: DroneView): readonly (readonly [string, string])[] {
  if (isolation === null) {
    return [['isolation', 'the drone does not report it: it is of an earlier version']];
  }
  const { user, pidNamespace, privateProc, hiddenHome, noNewPrivs, detail } = isolation;
  const has = [
    ...(pidNamespace ? ['PID namespace'] : []),
    ...(privateProc ? ['private /proc'] : []),
    ...(hiddenHome ? ['hidden state folder and home'] : []),
    ...(noNewPrivs ? ['no_new_privs'] : []),
  ];
  return [
    ['programs run as', user === 'own' ? 'users of their own' : "the drone's own user"],
    ['isolation', `${has.join(', ') || 'none'} (${printable(detail)})`],
  ];
}

function programText(program: DroneView['programs'][number]): string {
  const takes = [
    ...(program.allowArgs ? ['arguments'] : []),
    ...program.allowEnv.map((name) => printable(name)),
  ];
  return takes.length === 0 ? program.name : `${program.name} (takes ${takes.join(', ')})`;
}
