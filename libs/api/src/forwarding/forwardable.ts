/**
 * What one datacenter may ask another to carry out for its callers: everything that takes a
 * `datacenter`, and nothing else. Connects and moves have procedures of their own.
 */
export const FORWARDABLE: ReadonlySet<string> = new Set([
  ...['get', 'list', 'waiters', 'history'].map((name) => `keys.${name}`),
  ...['blockRenewal', 'allowRenewal', 'revoke'].map((name) => `keys.${name}`),
  ...['acquire', 'acquireMany', 'heartbeat', 'release', 'releaseMany', 'cancel'].map(
    (name) => `leases.${name}`,
  ),
  ...['get', 'list', 'tree', 'waiters', 'contention', 'history'].map((name) => `leases.${name}`),
  ...['blockRenewal', 'allowRenewal', 'revoke'].map((name) => `leases.${name}`),
  ...['tryAcquire', 'heartbeat', 'release', 'cancel'].map((name) => `environments.${name}`),
  ...['get', 'list', 'history', 'revoke'].map((name) => `environments.${name}`),
  ...['get', 'list', 'drain', 'undrain', 'markLost'].map((name) => `drones.${name}`),
  ...['get', 'list', 'terminate'].map((name) => `backends.${name}`),
  'events.list',
  'reservations.list',
]);
