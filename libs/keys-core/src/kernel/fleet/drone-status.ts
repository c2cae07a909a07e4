/** An operator sets `lost` and `draining`; a stale heartbeat makes a drone `unreachable`. */
export const DRONE_STATUSES = ['ready', 'draining', 'unreachable', 'lost'] as const;
export type DroneStatus = (typeof DRONE_STATUSES)[number];
