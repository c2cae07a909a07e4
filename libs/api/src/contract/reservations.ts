import { z } from 'zod';
import { LIMITS, isReservationId, reservationKeyProblem } from '@leasehold/keys-core';
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

/** What is reserved: a list of strings, 1 to 1,024 bytes in all. A key's is `[namespace, name]`. */
export const reservationKeySchema = checked(
  z.array(z.string()).max(LIMITS.reservationKeyPartsMax),
  reservationKeyProblem,
);

export const reservationIdSchema = z
  .string()
  .refine(isReservationId, 'must be the id of a reservation');

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
