import { DRONE_STATUSES } from '@leasehold/keys-core';
import type { ControllerApi } from '@leasehold/client';
import { Option, type Command } from 'commander';
import type { Cli } from '../cli.ts';
import {
  withDatacenter,
  withDatacenters,
  withPage,
  withReason,
  type ActOptions,
} from '../options.ts';
import { agoText, durationText } from '../output/duration.ts';
import { printable } from '../output/printable.ts';
import { detailsText, type Column } from '../output/table.ts';
import type { DroneListInput, DroneView } from '../views.ts';

/** `leasehold drones`. */
export function addDrones(cli: Cli, program: Command): void {
  const parent = program.command('drones').description('List drones, and take them out of use');
  addLs(cli, parent);
  addShow(cli, parent);
  addDrain(cli, parent);
  addUndrain(cli, parent);
  addMarkLost(cli, parent);
}

const COLUMNS: readonly Column<DroneView>[] = [
  { head: 'drone', text: (drone) => printable(drone.droneId) },
  { head: 'status', text: (drone) => drone.status },
  { head: 'heartbeat', text: (drone) => heartbeatText(drone), align: 'right' },
  { head: 'backends', text: (drone) => loadText(drone), align: 'right' },
  { head: 'programs', text: (drone) => drone.programs.map((program) => program.name).join(' ') },
  { head: 'datacenter', text: (drone) => drone.datacenter },
  { head: 'version', text: (drone) => printable(drone.version) },
  { head: 'registered', text: (drone) => drone.registeredAt, isWide: true },
  { head: 'clock id', text: (drone) => drone.clockId, isWide: true },
];

function addLs(cli: Cli, parent: Command): void {
  withDatacenters(
    withPage(cli.leaf(parent, 'ls', 'List drones and when they last sent a heartbeat')),
  )
    .addOption(new Option('--status <status>', 'in this status').choices(DRONE_STATUSES))
    .option('--program <program>', 'that offer this program')
    .action(async (options: DroneListInput) => {
      const page = await cli.client().drones.list.query(options);
      cli.showPage(page, 'No drones.', COLUMNS);
    });
}

/** How long ago a drone sent a heartbeat, by the database's clock. */
function heartbeatText({ heartbeatAgeMs }: DroneView): string {
  return heartbeatAgeMs === null ? 'never' : `${durationText(heartbeatAgeMs)} ago`;
}

function loadText({ backendCount, capacity }: DroneView): string {
  return `${String(backendCount)} of ${String(capacity)}`;
}

function addShow(cli: Cli, parent: Command): void {
  withDatacenter(cli.leaf(parent, 'show <drone>', 'Show one drone')).action(
    async (droneId: string, { datacenter }: ActOptions) => {
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
    ['backends', loadText(drone)],
    ['programs', drone.programs.map(programText).join(', ') || '-'],
    ...(drone.engine === null ? [] : [['container engine', engineText(drone.engine)] as const]),
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
  const facts = [
    ...(program.image === undefined ? [] : [`container of ${printable(program.image)}`]),
    ...(takes.length === 0 ? [] : [`takes ${takes.join(', ')}`]),
  ];
  return facts.length === 0 ? program.name : `${program.name} (${facts.join('; ')})`;
}

function engineText({ problem }: NonNullable<DroneView['engine']>): string {
  return problem === null ? 'answers' : printable(problem);
}

function addDrain(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'drain <drone>',
    'Start no new backends on a drone; running ones continue',
  );
  act(
    cli,
    command,
    (drones, input) => drones.drain.mutate(input),
    (name, { backends }) => {
      const remaining = backends.map((backend) => `\n  ${backend.backendId}`).join('');
      return remaining === ''
        ? `${name} takes no new backends, and runs none.`
        : `${name} takes no new backends. It still runs these; ` +
            `\`leasehold backends terminate ID\` stops one:${remaining}`;
    },
  );
}

function addUndrain(cli: Cli, parent: Command): void {
  const command = cli.leaf(parent, 'undrain <drone>', 'Let a drone take new backends again');
  act(
    cli,
    command,
    (drones, input) => drones.undrain.mutate(input),
    (name) => `${name} takes new backends.`,
  );
}

const MARK_LOST_HELP = `
Use this for a machine that is gone. It gets no new backends, and its keys are not renewed any more.
Each key is granted again only when it has expired, because its backend may still run unseen.`;

function addMarkLost(cli: Cli, parent: Command): void {
  const command = cli
    .leaf(parent, 'mark-lost <drone>', 'Declare a drone permanently lost')
    .addHelpText('after', MARK_LOST_HELP);
  act(
    cli,
    command,
    (drones, input) => drones.markLost.mutate(input),
    (name) => `${name} is marked as lost. Its keys expire.`,
  );
}

type Drones = ControllerApi['drones'];

/** Lets a command carry out an act on one drone. */
function act<Answer>(
  cli: Cli,
  command: Command,
  mutate: (drones: Drones, input: ActOptions & { droneId: string }) => Promise<Answer>,
  text: (drone: string, answer: Answer) => string,
): void {
  withReason(withDatacenter(command), false).action(
    async (droneId: string, options: ActOptions) => {
      const answer = await mutate(cli.client().drones, { droneId, ...options });
      cli.show(answer, () => text(printable(droneId), answer));
    },
  );
}
