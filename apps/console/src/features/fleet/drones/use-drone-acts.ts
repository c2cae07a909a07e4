import { useWhyNot } from '~/lib/session/session.tsx';
import { actProblem, type Drone, type DroneAct } from './drone-texts.ts';

export const DRONE_ACTS: readonly { readonly act: DroneAct; readonly label: string }[] = [
  { act: 'drain', label: 'Drain' },
  { act: 'undrain', label: 'Undrain' },
  { act: 'markLost', label: 'Mark lost' },
];

/** Why an act may not be done to a drone now: the person's role, or the drone's state. */
export function useDroneWhyNot(): (act: DroneAct, drone: Drone) => string | undefined {
  const whyNot = useWhyNot('operator');
  return (act, drone) => whyNot ?? actProblem(act, drone);
}
