/**
 * What keeps backends and leases alive or gives them back, and what drones say. It is served before
 * everything else, and its rate is counted apart.
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
  'drones.ack',
  'backends.report',
]);

/** Whether a call of this procedure goes before others. */
export function isUrgentCall(path: string): boolean {
  return URGENT_CALLS.has(path);
}
