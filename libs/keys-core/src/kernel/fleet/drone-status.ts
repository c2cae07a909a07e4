/**
 * An operator sets `lost` and `draining`; a stale heartbeat makes a drone `unreachable`. One that has said goodbye
 * is `draining` until its backends have ended, and `stopped` then.
 */
export const DRONE_STATUSES = ['ready', 'draining', 'stopped', 'unreachable', 'lost'] as const;
export type DroneStatus = (typeof DRONE_STATUSES)[number];

/** What drones are ordered by. Those of which the value is not known come as if it were less than nothing. */
export const DRONE_SORTS = ['droneId', 'backends', 'cpu', 'memory', 'disk'] as const;
export type DroneSort = (typeof DRONE_SORTS)[number];
