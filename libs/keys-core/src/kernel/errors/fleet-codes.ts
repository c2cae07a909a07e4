import type { CodeDraft } from './code-entry.ts';

/** Drones, their backends and their sessions. */
export const FLEET_CODES = {
  'drone.not_found': {
    http: 404,
    text: 'There is no such drone.',
    doc: 'It has never registered. See `leasehold drones ls`.',
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
  'session.superseded': {
    http: 409,
    text: 'A newer session of this drone has taken over.',
    doc: 'Two agents use one drone id, or this one was replaced. Only the newest session is valid.',
  },
} as const satisfies Record<`${'drone' | 'backend' | 'session'}.${string}`, CodeDraft>;
