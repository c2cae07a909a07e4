/** After this many intervals without a heartbeat a drone counts as unreachable (design 6.1). */
const HEARTBEAT_INTERVALS_MAX = 3;

/** How old a heartbeat may be before its drone counts as unreachable. */
export function heartbeatAgeMsMax(heartbeatMs: number): number {
  return HEARTBEAT_INTERVALS_MAX * heartbeatMs;
}
