import { DRONE_STATUSES, type DroneStatus } from '@leasehold/keys-core';
import type { Inputs } from '~/lib/api/api.ts';

const PAGE_ROWS = 100;

/** What the address says of the list of drones. */
interface DronesWanted {
  readonly status: string | null;
  readonly program: string | null;
  readonly after: string | null;
}

export function statusOf(text: string | null): DroneStatus | null {
  return DRONE_STATUSES.find((known) => known === text) ?? null;
}

/** What is asked of `drones.list` for it; an unknown status is no filter. */
export function droneListInput(wanted: DronesWanted): NonNullable<Inputs['drones']['list']> {
  const status = statusOf(wanted.status);
  return {
    limit: PAGE_ROWS,
    ...(wanted.after === null ? {} : { cursor: wanted.after }),
    ...(status === null ? {} : { status }),
    ...(wanted.program === null ? {} : { program: wanted.program }),
  };
}
