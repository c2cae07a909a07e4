import type { CodeDraft } from './code-entry.ts';

/** Keys, and starting their backends. */
export const KEY_CODES = {
  'key.unheld': {
    http: 409,
    text: 'Nobody holds this key, and the request does not say what to spawn.',
    doc: 'Pass `spawn` (CLI: `--program`) to start a backend.',
  },
  'key.tag_mismatch': {
    http: 409,
    text: 'The key is held under another tag.',
    doc: 'The holder was not changed. Use its tag, or another key.',
  },
  'key.terminating': {
    http: 409,
    retryable: true,
    text: "The key's backend is being stopped.",
    doc: 'The key is free after `details.remainingMs` at the latest. Try again, or pass a larger `waitMs`.',
  },
  'key.holder_unreachable': {
    http: 409,
    retryable: true,
    text: 'The drone that holds the key sends no heartbeats.',
    doc: 'Its backend may still run. The key expires in `details.remainingMs` unless the drone comes back.',
  },
  'spawn.no_drone': {
    http: 503,
    retryable: true,
    text: 'No drone can run this program now.',
    doc: 'No reachable drone that is not draining offers the program and has free capacity. See `leasehold drones ls`. With several datacenters `details.datacenter` is the home of the key, where its drone has to be, and `details.offeredIn` names those that offer the program. A key that had no home gets none.',
  },
  'spawn.not_allowed': {
    http: 400,
    text: 'The program, its arguments or its variables are not allowed.',
    doc: 'The token may be limited to other programs. Arguments and environment variables must be allowed by `allowArgs` and `allowEnv` of the program in the drone configuration.',
  },
} as const satisfies Record<`${'key' | 'spawn'}.${string}`, CodeDraft>;
