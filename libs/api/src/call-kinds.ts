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

/** Calls that ask for grants: what a controller refuses first when it is asked for too many. */
const GRANTING_CALLS: ReadonlySet<string> = new Set([
  'keys.connect',
  'leases.acquire',
  'leases.acquireMany',
  'environments.tryAcquire',
]);

/** Whether calls of this procedure ask for grants. */
export function isGrantingCall(path: string): boolean {
  return GRANTING_CALLS.has(path);
}
