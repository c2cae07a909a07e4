/** `lost` and `draining` are an operator's word, `unreachable` is a stale heartbeat. */
export const DRONE_STATUSES = ['ready', 'draining', 'unreachable', 'lost'] as const;
export type DroneStatus = (typeof DRONE_STATUSES)[number];
