/** What drones are ordered by. Those of which the value is not known come as if it were less than nothing. */
export const DRONE_SORTS = ['droneId', 'backends', 'cpu', 'memory', 'disk'] as const;
export type DroneSort = (typeof DRONE_SORTS)[number];

/** What backends are ordered by. By what they use, only those are listed of which that is known. */
export const BACKEND_SORTS = ['created', 'memory', 'cpu'] as const;
export type BackendSort = (typeof BACKEND_SORTS)[number];
