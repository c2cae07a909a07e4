import {
  type Icon,
  IconPlayerPause,
  IconPlayerPlay,
  IconPlayerStop,
  IconPlugConnectedX,
  IconTrash,
} from '@tabler/icons-react';
import { absolute, ago, count } from '~/lib/format.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { Tip } from '~/ui/tip.tsx';
import { actProblem, type Drone, type DroneAct } from './drone-texts.ts';
import classes from './fleet.module.css';

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
