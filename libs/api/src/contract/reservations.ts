import { isReservationId, LIMITS, reservationKeyProblem } from '@leasehold/keys-core';
import { z } from 'zod';
import {
  anyDatacenterSchema,
  checked,
  datacenterSchema,
  leaseIdSchema,
  namespaceSchema,
  pageFields,
  reasonSchema,
  searchTextSchema,
  textSchema,
} from './common.ts';
import { connectFields, keyConfigSchema } from './keys.ts';

/** What is reserved: a list of strings, 1 to 1,024 bytes in all. A key's is `[namespace, name]`. */
const reservationKeySchema = checked(
  z.array(z.string()).max(LIMITS.reservationKeyPartsMax),
  reservationKeyProblem,
);

const reservationIdSchema = z.string().refine(isReservationId, 'must be the id of a reservation');

export const reserveInputSchema = z.strictObject({
  key: reservationKeySchema,
  /** Where the key is to live; by default in this controller's datacenter. */
  datacenter: datacenterSchema.optional(),
});

export const resolveInputSchema = z.strictObject({
  key: reservationKeySchema,
  /** Whether the key's datacenter is asked too, so that a move that is not known here yet is seen. */
  fresh: z.boolean().optional(),
});

export const reservationGetInputSchema = z.strictObject({ key: reservationKeySchema });

export const moveInputSchema = z.strictObject({
  key: reservationKeySchema,
  toDatacenter: datacenterSchema,
  reason: reasonSchema,
});

/** Names one reservation of a key; its datacenter is asked. */
export const reservationRefSchema = z.strictObject({
  key: reservationKeySchema,
  reservationId: reservationIdSchema,
  datacenter: datacenterSchema.optional(),
});

export const requestMoveInputSchema = reservationRefSchema.extend({
  toDatacenter: datacenterSchema,
  reason: reasonSchema,
  /** The grant that has to end first; null for a key that is free. */
  waitsFor: leaseIdSchema.nullable(),
});

const reservationFilterFields = {
  /** Only of keys in this namespace, children included. */
  namespace: namespaceSchema.optional(),
  /** Only of keys whose name begins with this. */
  prefix: textSchema({ bytesMin: 1, bytesMax: 255 }).optional(),
  /** Only of keys whose name as it is printed, with its namespace, contains this, whatever its case. */
  contains: searchTextSchema.optional(),
  state: z.enum(['active', 'moved']).optional(),
  datacenter: anyDatacenterSchema,
};

export const reservationListInputSchema = z.strictObject({
  ...reservationFilterFields,
  ...pageFields,
});

export const reservationCountInputSchema = z.strictObject(reservationFilterFields);

// What controllers of different datacenters say to each other.

/** The roles that a caller can have in another datacenter: nobody is an administrator there. */
export const FORWARDED_ROLES = ['viewer', 'client', 'operator'] as const;

/** To how many somebody can be limited: a token has fewer. */
export const LIMIT_NAMESPACES_MAX = 1_000;
const ACTOR_BYTES_MAX = 512;
const PROCEDURE_BYTES_MAX = 64;

/** The caller, as the sender has checked it. */
export const peerCallerSchema = z.strictObject({
  principal: textSchema({ bytesMin: 1, bytesMax: 255 }),
  actor: textSchema({ bytesMin: 1, bytesMax: ACTOR_BYTES_MAX }),
  role: z.enum(FORWARDED_ROLES),
  namespaces: z.array(namespaceSchema).max(LIMIT_NAMESPACES_MAX).nullable(),
  /** The caller's address, as the sender saw it. */
  source: textSchema({ bytesMax: 255 }).nullable(),
});

export const peerConnectInputSchema = z.strictObject({
  input: z.strictObject({
    ...connectFields,
    key: keyConfigSchema,
    homeReservation: reservationIdSchema,
  }),
  caller: peerCallerSchema,
});

export const peerResolveInputSchema = z.strictObject({
  reservationId: reservationIdSchema,
  key: reservationKeySchema,
});

export const peerMoveInputSchema = z.strictObject({
  input: moveInputSchema,
  caller: peerCallerSchema,
});

/** `input` is checked by the procedure itself. A body is bounded by `LIMITS.bodyBytesMax`. */
export const carryOutInputSchema = z.strictObject({
  procedure: textSchema({ bytesMin: 1, bytesMax: PROCEDURE_BYTES_MAX }),
  input: z.unknown(),
  caller: peerCallerSchema,
});
