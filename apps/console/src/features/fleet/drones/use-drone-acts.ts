import {
  type Icon,
  IconPlayerPause,
  IconPlayerPlay,
  IconPlayerStop,
  IconPlugConnectedX,
  IconTrash,
} from '@tabler/icons-react';
import { useWhyNot } from '~/lib/session.tsx';
import { actProblem, type Drone, type DroneAct } from './drone-texts.ts';

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
