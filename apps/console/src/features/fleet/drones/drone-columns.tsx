import { column, type Column } from '~/ui/table/column.ts';
import { Link } from '~/ui/link.tsx';
import { DRONE_LOOKS } from '~/resources/looks.tsx';
import { LookBadge, Mono } from '~/ui/text/text.tsx';
import { routes } from '~/lib/routes.ts';
import { type Drone, type DroneAct, roundTrip } from './drone-texts.ts';
import { Heartbeat } from './heartbeat.tsx';
import { LoadBar } from './load-bar.tsx';
import { RowMenu } from '~/ui/menus/row-menu.tsx';
import { DRONE_ACTS, useDroneWhyNot } from './use-drone-acts.ts';

/** `begin` opens the dialog of an act. */
export function droneColumns(begin: (act: DroneAct, drone: Drone) => void): Column<Drone>[] {
  return [
    column('Drone', {}, (drone) => (
      <Link href={routes.drone(drone.droneId, drone.datacenter)}>{drone.droneId}</Link>
    )),
    column('Status', {}, (drone) => <LookBadge look={DRONE_LOOKS[drone.status]} />),
    column('Backends', {}, (drone) => <LoadBar {...drone} />),
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
