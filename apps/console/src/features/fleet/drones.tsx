import {
  type Icon,
  IconPlayerPause,
  IconPlayerPlay,
  IconPlayerStop,
  IconPlugConnectedX,
  IconTrash,
} from '@tabler/icons-react';
import type { Outputs } from '~/lib/api/api.ts';
import { absolute, ago, count, countText, duration } from '~/lib/format.ts';
import { useSession, useWhyNot } from '~/lib/session.tsx';
import { PageHeader } from '~/ui/page.tsx';
import { NotAllowed } from '~/ui/states.tsx';
import { Tip } from '~/ui/tip.tsx';
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

/** Why the person may not see drones, which run backends of all namespaces; undefined when they may. */
export function useFleetWhyNot(): string | undefined {
  return useWhyNot('viewer', { isOfAll: true });
}

/** In place of a page about drones. */
export function FleetNotAllowed({ whyNot }: { readonly whyNot: string }) {
  return (
    <>
      <PageHeader title="Drones" />
      <NotAllowed whyNot={whyNot}>Drones run backends of all of them.</NotAllowed>
    </>
  );
}

/** Why an act may not be done to a drone now: the person's role, or the drone's state. */
export function useDroneWhyNot(): (act: DroneAct, drone: Drone) => string | undefined {
  const whyNotOperator = useWhyNot('operator', { isOfAll: true });
  const whyNotAdmin = useWhyNot('admin');
  const { datacenter: here } = useSession();
  return (act, drone) => {
    const whyNot = act === 'remove' ? (whyNotAdmin ?? elsewhere(drone, here)) : whyNotOperator;
    return whyNot ?? actProblem(act, drone);
  };
}

/** Nobody is an administrator in another datacenter. */
function elsewhere({ datacenter }: Drone, here: string): string | undefined {
  return datacenter === here ? undefined : `Remove it by the console of ${datacenter}.`;
}

/** A drone as the API returns it. */
export type Drone = Outputs['drones']['get'];

/** What an operator can do with a drone. */
export type DroneAct = 'drain' | 'undrain' | 'stop' | 'markLost' | 'remove';

type Judged = Pick<Drone, 'draining' | 'lostAt' | 'stoppedAt' | 'isConnected' | 'backendCount'>;

/** Why an act makes no sense for a drone in its present state; undefined when it does. */
export function actProblem(act: DroneAct, drone: Judged): string | undefined {
  if (act === 'drain') {
    if (drone.lostAt !== null) return 'It is marked lost and gets no backends.';
    return drone.draining ? 'It is draining already.' : undefined;
  }
  if (act === 'stop') {
    if (drone.backendCount === 0) return 'It has no backends.';
    return drone.lostAt === null ? undefined : 'It is marked lost: its keys expire.';
  }
  if (act === 'remove') return removeProblem(drone);
  if (act === 'undrain') return drone.draining ? undefined : 'It is not draining.';
  return drone.lostAt === null ? undefined : 'It is marked lost already.';
}

function removeProblem({ isConnected, backendCount }: Judged): string | undefined {
  if (isConnected) return 'It is connected: stop it first.';
  if (backendCount === 0) return undefined;
  return `${countText(backendCount, 'backend')} may still run: their keys expire first.`;
}

/** What has to be typed before an act: the drone's id where it cannot be undone, how many where it stops several. */
export function typedFor(
  act: DroneAct,
  { droneId, backendCount }: Pick<Drone, 'droneId' | 'backendCount'>,
): { readonly what: string; readonly text: string } | undefined {
  if (isFinal(act)) return { what: 'the drone’s id', text: droneId };
  if (act !== 'stop' || backendCount < 2) return undefined;
  return { what: 'how many backends it has', text: String(backendCount) };
}

/** Whether an act cannot be undone. */
export function isFinal(act: DroneAct): boolean {
  return act === 'markLost' || act === 'remove';
}

/** What is unusual about a drone, in a sentence; undefined when nothing is. */
export function droneNotice(
  drone: Pick<Drone, 'status' | 'backendCount' | 'draining' | 'heartbeatAgeMs'>,
): { readonly tone: 'warn' | 'bad' | 'calm'; readonly text: string } | undefined {
  const left = countText(drone.backendCount, 'backend');
  switch (drone.status) {
    case 'ready':
      return undefined;
    case 'stopped':
      return {
        tone: 'calm',
        text: 'Stopped: it was told to end, and none of its backends run. It gets backends again once it is started.',
      };
    case 'draining':
      return {
        tone: 'warn',
        text:
          drone.backendCount === 0
            ? 'Drained: it gets no new backends, and none are left on it.'
            : `Draining: it gets no new backends. ${left} still there, until they end or are stopped.`,
      };
    case 'unreachable':
      return {
        tone: 'bad',
        text: `${silence(drone.heartbeatAgeMs)} It gets no new backends. Keys that it cannot renew expire.`,
      };
    case 'lost':
      return {
        tone: 'warn',
        text: `Marked lost: its keys are not renewed any more, and expire. It takes backends again once it has opened a new session and is undrained. ${left} not known to have ended.`,
      };
  }
}

function silence(ageMs: number | null): string {
  return ageMs === null
    ? 'No heartbeat since it registered.'
    : `No heartbeat for ${duration(ageMs)}.`;
}

/** `1.4 ms`, `35 ms`: short trips show tenths. */
export function roundTrip(ms: number): string {
  if (ms < 0.1) return '< 0.1 ms';
  return ms < 10 ? `${ms.toFixed(1)} ms` : duration(ms);
}

/** What isolates a drone's programs from the drone itself, as facts for its page. */
export function isolationFacts(
  isolation: Drone['isolation'],
): readonly (readonly [name: string, value: string])[] {
  if (isolation === null) return [['Isolation of programs', 'not reported by this version']];
  const { user, pidNamespace, privateProc, hiddenHome, noNewPrivs, detail } = isolation;
  const has = [
    ...(pidNamespace ? ['PID namespace'] : []),
    ...(privateProc ? ['private /proc'] : []),
    ...(hiddenHome ? ['hidden home'] : []),
    ...(noNewPrivs ? ['no new privileges'] : []),
  ];
  return [
    ['Programs run as', user === 'own' ? 'users of their own' : 'the drone’s own user'],
    ['Isolation of programs', `${has.join(', ') || 'none'}; ${detail}`],
  ];
}
