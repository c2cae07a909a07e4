/**
 * Calls that repeat for as long as something is held or alive. They are a part of a trace that asks for them,
 * and begin none: each second's renewals would hide all that happens once.
 */
const PERIODIC = new Set([
  'keys.renew',
  'leases.heartbeat',
  'leases.declare',
  'environments.heartbeat',
  'drones.heartbeat',
  'drones.ack',
  'peer.ping',
]);

export function isPeriodicCall(path: string): boolean {
  return PERIODIC.has(path);
}
