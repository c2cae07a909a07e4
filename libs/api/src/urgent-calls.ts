/**
 * Calls that keep backends and leases alive or release them, and all calls of drones. They are
 * served before everything else, and their rate is counted separately.
 */
const URGENT_CALLS: ReadonlySet<string> = new Set([
  'keys.renew',
  'leases.heartbeat',
  'leases.release',
  'leases.releaseMany',
  'leases.cancel',
  'environments.heartbeat',
  'environments.release',
  'environments.cancel',
  'drones.session',
  'drones.heartbeat',
  'drones.goodbye',
  'drones.ack',
  'backends.report',
]);

/** Whether calls of this procedure are served before others. */
export function isUrgentCall(path: string): boolean {
  return URGENT_CALLS.has(path);
}
