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
