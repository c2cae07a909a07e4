import { bytesText, percentText } from '@leasehold/keys-core';
import {
  type Icon,
  IconPlayerPause,
  IconPlayerPlay,
  IconPlayerStop,
  IconPlugConnectedX,
  IconTrash,
} from '@tabler/icons-react';
import { absolute, ago, count } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { endOf, failureLabel } from '~/resources/backend-end.ts';
import { backendLook, DRONE_LOOKS } from '~/resources/looks.tsx';
import { RowMenu } from '~/ui/menus.tsx';
import { column, type Column } from '~/ui/table/column.ts';
import { Link, LookBadge, Mono, RelativeTime, Under, VisibleText } from '~/ui/text.tsx';
import { Tip } from '~/ui/tip.tsx';
import { type Backend, kindOf } from './backend-texts.ts';
import { actProblem, type Drone, type DroneAct, roundTrip } from './drone-texts.ts';
import classes from './fleet.module.css';

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
function Used({
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

/** `isOfDrone`: on the page of a drone, where the drone is not repeated. */
export function backendColumns({ isOfDrone = false } = {}): Column<Backend>[] {
  return [
    column('Backend', {}, (backend) => (
      <>
        <Link href={routes.backend(backend.backendId, backend.datacenter)}>
          <Mono>{backend.backendId}</Mono>
        </Link>
        <Under upTo="sm">
          <VisibleText>{backend.key.name}</VisibleText>
        </Under>
      </>
    )),
    column('Status', {}, (backend) => <LookBadge look={backendLook(backend)} />),
    column('Key', { from: 'sm' }, (backend) => (
      <Link href={routes.key({ ...backend.key, datacenter: backend.datacenter })}>
        <VisibleText>{backend.key.name}</VisibleText>
      </Link>
    )),
    column('Namespace', { from: 'xl' }, (backend) => (
      <VisibleText>{backend.key.namespace}</VisibleText>
    )),
    column('Program', { from: 'lg' }, (backend) => (
      <span title={kindOf(backend)}>{backend.program}</span>
    )),
    ...(isOfDrone ? [] : [DRONE]),
    column('CPU', { from: 'lg', align: 'end', sort: 'cpu' }, ({ usage }) =>
      usage?.cpus == null ? '–' : percentText(usage.cpus),
    ),
    column('Memory', { from: 'md', align: 'end', sort: 'memory' }, ({ usage }) =>
      usage === null ? '–' : bytesText(usage.memoryBytes),
    ),
    column('Token', { from: 'xl', align: 'end' }, (backend) => <Mono>{backend.fencingToken}</Mono>),
    column('Ended because', { from: 'md', isFilling: true }, (backend) => {
      const end = endOf(backend);
      const hasFailed = failureLabel(backend) !== undefined;
      return (
        <span title={end} data-bad={hasFailed || undefined}>
          {end ?? '–'}
        </span>
      );
    }),
    column('Started', { from: 'sm', sort: 'created' }, (backend) => (
      <RelativeTime at={backend.createdAt} />
    )),
  ];
}

const DRONE: Column<Backend> = column('Drone', { from: 'md' }, (backend) => (
  <Link href={routes.drone(backend.droneId, backend.datacenter)}>{backend.droneId}</Link>
));

/** From this share on a drone is nearly full. */
const HIGH = 0.85;

/** How many backends a drone has, of those that it can have. */
export function LoadBar({
  backendCount,
  capacity,
}: {
  readonly backendCount: number;
  readonly capacity: number;
}) {
  const share = capacity === 0 ? 1 : Math.min(1, backendCount / capacity);
  return (
    <span className={classes['load']}>
      <span className={classes['bar']} data-load aria-hidden>
        <span
          className={classes['used']}
          data-high={share >= HIGH || undefined}
          style={{ transform: `scaleX(${String(share)})` }}
        />
      </span>
      <span>
        {count(backendCount)} <span className="dimmed">of {count(capacity)}</span>
      </span>
    </span>
  );
}

/**
 * How old a drone's last heartbeat was when the database was asked. The age does not grow between two
 * answers, because heartbeats go on meanwhile.
 */
export function Heartbeat({
  drone: { heartbeatAt, heartbeatAgeMs },
}: {
  readonly drone: Pick<Drone, 'heartbeatAt' | 'heartbeatAgeMs'>;
}) {
  if (heartbeatAt === null || heartbeatAgeMs === null) return <span>none yet</span>;
  return (
    <Tip label={<span className="mono">{absolute(heartbeatAt)}</span>}>
      <time dateTime={heartbeatAt} tabIndex={0}>
        {ago(heartbeatAgeMs)}
      </time>
    </Tip>
  );
}

export const DRONE_ACTS: readonly {
  readonly act: DroneAct;
  readonly label: string;
  readonly icon: Icon;
}[] = [
  { act: 'drain', label: 'Drain', icon: IconPlayerPause },
  { act: 'undrain', label: 'Undrain', icon: IconPlayerPlay },
  { act: 'stop', label: 'Stop backends', icon: IconPlayerStop },
  { act: 'markLost', label: 'Mark lost', icon: IconPlugConnectedX },
  { act: 'remove', label: 'Remove', icon: IconTrash },
];

/** Why an act may not be done to a drone now: the person's role, or the drone's state. */
export function useDroneWhyNot(): (act: DroneAct, drone: Drone) => string | undefined {
  const whyNotOperator = useWhyNot('operator');
  const whyNotAdmin = useWhyNot('admin');
  return (act, drone) =>
    (act === 'remove' ? whyNotAdmin : whyNotOperator) ?? actProblem(act, drone);
}
