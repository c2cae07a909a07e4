/**
 * An operator sets `lost` and `draining`; a stale heartbeat makes a drone `unreachable`. One that has said goodbye
 * is `draining` until its backends have ended, and `stopped` then.
 */
export const DRONE_STATUSES = ['ready', 'draining', 'stopped', 'unreachable', 'lost'] as const;
export type DroneStatus = (typeof DRONE_STATUSES)[number];
