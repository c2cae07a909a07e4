import { DRONE_STATUSES, type DroneStatus } from '@leasehold/keys-core';
import type { Inputs } from '~/lib/api/api.ts';

const PAGE_ROWS = 100;

/** The filters of the drones, as the address has them. */
interface DronesWanted {
  readonly status: string | null;
  readonly program: string | null;
  readonly after: string | null;
}

export function statusOf(text: string | null): DroneStatus | null {
  return DRONE_STATUSES.find((known) => known === text) ?? null;
}

/** The input of `drones.list` for these filters; an unknown status is left out. */
export function droneListInput(wanted: DronesWanted): NonNullable<Inputs['drones']['list']> {
  return {
    limit: PAGE_ROWS,
    cursor: wanted.after ?? undefined,
    status: statusOf(wanted.status) ?? undefined,
    program: wanted.program ?? undefined,
  };
}
