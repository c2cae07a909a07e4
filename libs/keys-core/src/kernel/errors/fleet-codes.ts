import type { CodeDraft } from './code-entry.ts';

/** Drones, their backends and their sessions. */
export const FLEET_CODES = {
  'drone.not_found': {
    http: 404,
    text: 'There is no such drone.',
    doc: 'It has never registered, or was removed. See `leasehold drones ls`.',
  },
  'drone.in_use': {
    http: 409,
    text: 'The drone is connected, or backends of it may still run.',
    doc: 'Only a drone that has stopped, or is gone with all of its backends, can be removed. `details` has `isConnected` and `backendCount`. Stop it (`leasehold drones drain DRONE --stop`, then its service), or wait until the keys of its backends have expired: `leasehold backends ls --live --drone DRONE`.',
  },
  'drone.not_allowed': {
    http: 403,
    text: 'The token of this drone does not allow this.',
    doc: 'The drone offers a program or a capacity, or reports an address, that its token is not bound to. `details` names it and what is allowed. Change the drone configuration, or make a token with other bindings: `leasehold tokens create --role drone --drone ID --program P --capacity N --address RANGE`.',
  },
  'backend.not_found': {
    http: 404,
    text: 'There is no such backend.',
    doc: 'See `leasehold backends ls`.',
  },
  'backend.failed': {
    http: 502,
    text: 'The backend ended before it was ready.',
    doc: 'Its program crashed, could not be started, or was not ready in time; or it was stopped meanwhile. `details` has the reason, the exit code, the signal, how long it lived in milliseconds (`livedMs`), and its last lines (`output`). `leasehold backends logs BACKEND` shows all that its drone keeps. The key is free: the next connect starts it again.',
  },
  'backend.not_ready': {
    http: 504,
    retryable: true,
    text: 'The backend was not ready within two minutes.',
    doc: 'It runs, and nothing answers on the port that it got in `PORT`: see whether the program listens there. Its drone waits on, for `readiness.timeoutMs` of the program. Connect again to go on waiting, or read `leasehold backends logs BACKEND`.',
  },
  'backend.crash_loop': {
    http: 503,
    retryable: true,
    text: 'The last backends of this key have failed: its next start is delayed.',
    doc: 'After the third failure within ten minutes a start waits for a second, after each further one twice as long, up to a minute. `details` has how many have failed, since when, the last one, and its last lines. Correct the program; a backend that is ready for a minute ends it, and `leasehold keys reset-failures NAME` at once. `connect --wait` waits instead.',
  },
  'backend.logs_unavailable': {
    http: 503,
    retryable: true,
    text: 'The drone does not tell what this backend has written.',
    doc: 'It is not connected, or of a version that keeps the output of its backends to itself. Try again when it is back. The files are on its machine: `leasehold backends show BACKEND` names them.',
  },
  'session.superseded': {
    http: 409,
    text: 'A newer session of this drone has taken over.',
    doc: 'Two agents use one drone id, or this one was replaced. Only the newest session is valid.',
  },
} as const satisfies Record<`${'drone' | 'backend' | 'session'}.${string}`, CodeDraft>;
