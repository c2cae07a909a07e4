/**
 * What one datacenter may ask another to carry out for its callers: everything that takes a
 * `datacenter`, and nothing else. Connects and immediate moves have procedures of their own.
 */

/** Procedures that change nothing, and are answered at once. */
const READS: ReadonlySet<string> = new Set([
  ...['get', 'list', 'count', 'failures', 'waiters', 'history', 'at'].map((name) => `keys.${name}`),
  ...[
    'get',
    'list',
    'count',
    'tree',
    'waiters',
    'contention',
    'failingCallbacks',
    'history',
    'at',
  ].map((name) => `leases.${name}`),
  ...['get', 'list', 'count', 'history', 'at'].map((name) => `environments.${name}`),
  ...['get', 'list', 'count'].flatMap((name) => [`drones.${name}`, `backends.${name}`]),
  'backends.logs',
  'events.list',
  'events.count',
  'refusals.list',
  'holdOff.get',
  'reservations.list',
  'reservations.count',
  'reservations.pendingMove',
  'search.find',
]);

const ACTS: ReadonlySet<string> = new Set([
  ...['blockRenewal', 'allowRenewal', 'revoke', 'resetFailures'].map((name) => `keys.${name}`),
  ...['acquire', 'acquireMany', 'heartbeat', 'release', 'releaseMany', 'cancel'].map(
    (name) => `leases.${name}`,
  ),
  ...['blockRenewal', 'allowRenewal', 'revoke'].map((name) => `leases.${name}`),
  ...['tryAcquire', 'heartbeat', 'release', 'cancel', 'revoke'].map(
    (name) => `environments.${name}`,
  ),
  ...['drain', 'undrain', 'markLost', 'remove'].map((name) => `drones.${name}`),
  'backends.terminate',
  'holdOff.end',
  'reservations.requestMove',
  'reservations.cancelMove',
]);

export function isForwardable(procedure: string): boolean {
  return READS.has(procedure) || ACTS.has(procedure);
}

/** Whether it does no harm to carry out a procedure twice. */
export function isRepeatable(procedure: string): boolean {
  return READS.has(procedure);
}
