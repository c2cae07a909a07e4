import { bytesText, percentText } from '@leasehold/keys-core';
import { routes } from '~/lib/routes.ts';
import { DRONE_LOOKS } from '~/resources/looks.tsx';
import { RowMenu } from '~/ui/menus.tsx';
import { column, type Column } from '~/ui/table/column.ts';
import { Link, LookBadge, Mono } from '~/ui/text.tsx';
import { type Drone, type DroneAct, roundTrip } from './drone-texts.ts';
import { Heartbeat } from './heartbeat.tsx';
import { LoadBar } from './load-bar.tsx';
import { DRONE_ACTS, useDroneWhyNot } from './use-drone-acts.ts';

/** `begin` opens the dialog of an act. */
export function droneColumns(begin: (act: DroneAct, drone: Drone) => void): Column<Drone>[] {
  return [
    column('Drone', { sort: 'droneId' }, (drone) => (
      <Link href={routes.drone(drone.droneId, drone.datacenter)}>{drone.droneId}</Link>
    )),
    column('Status', {}, (drone) => <LookBadge look={DRONE_LOOKS[drone.status]} />),
    column('Backends', { sort: 'backends' }, (drone) => <LoadBar {...drone} />),
    column('CPU', { from: 'sm', align: 'end', sort: 'cpu' }, ({ machine }) =>
      machine === null ? '–' : percentText(machine.cpuShare),
    ),
    column('Memory', { from: 'sm', align: 'end', sort: 'memory' }, ({ machine }) => (
      <Used used={machine?.memoryUsedBytes} all={machine?.memoryBytes} />
    )),
    column('Disk', { from: 'lg', align: 'end', sort: 'disk' }, ({ machine }) => (
      <Used used={machine?.diskUsedBytes} all={machine?.diskBytes} />
    )),
    column('Heartbeat', { from: 'sm' }, (drone) => <Heartbeat drone={drone} />),
    column('Round trip', { from: 'md', align: 'end' }, (drone) => (
      <Mono>{drone.roundTripMs === null ? '–' : roundTrip(drone.roundTripMs)}</Mono>
    )),
    column('Datacenter', { from: 'md' }, (drone) => drone.datacenter),
    column('Version', { from: 'lg' }, (drone) => <Mono>{drone.version}</Mono>),
    column('Programs', { from: 'lg' }, (drone) =>
      drone.programs.map(({ name }) => name).join(', '),
    ),
    column('Actions', { isHeadHidden: true, align: 'end' }, (drone) => (
      <DroneMenu drone={drone} begin={begin} />
    )),
  ];
}

/** A share of what there is, with the amounts for a look. */
export function Used({
  used,
  all,
}: {
  readonly used: number | undefined;
  readonly all: number | undefined;
}) {
  if (used === undefined || all === undefined || all === 0) return <span>–</span>;
  return <span title={`${bytesText(used)} of ${bytesText(all)}`}>{percentText(used / all)}</span>;
}

/** What can be done with a drone, in its row. */
function DroneMenu({
  drone,
  begin,
}: {
  readonly drone: Drone;
  readonly begin: (act: DroneAct, drone: Drone) => void;
}) {
  const whyNot = useDroneWhyNot();
  return (
    <RowMenu
      of={drone.droneId}
      acts={DRONE_ACTS.map(({ act, label }) => ({
        label,
        whyNot: whyNot(act, drone),
        isDangerous: act === 'markLost' || act === 'remove',
        onClick: () => begin(act, drone),
      }))}
    />
  );
}
