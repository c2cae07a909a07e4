'use client';

import { RowMenu } from '~/ui/menus/row-menu.tsx';
import type { Drone, DroneAct } from './drone-texts.ts';
import { DRONE_ACTS, useDroneWhyNot } from './use-drone-acts.ts';

/** What can be done with a drone, in its row. */
export function DroneMenu({
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
        isDangerous: act === 'markLost',
        onClick: () => begin(act, drone),
      }))}
    />
  );
}
