import { z } from 'zod';
import { RESERVED_NAMESPACE, TOKEN_ROLES, isWithinNamespace } from '@leasehold/keys-core';
import {
  cursorSchema,
  idSchema,
  instantSchema,
  limitSchema,
  namespaceSchema,
  reasonSchema,
  textSchema,
  uuidSchema,
} from './common.ts';

const NAMESPACES_PER_TOKEN_MAX = 64;
const TOKEN_NAME_BYTES_MAX = 255;

const limitNamespaceSchema = namespaceSchema
  .refine(
    (namespace) => namespace !== '',
    'must not be the root: leave `namespaces` out for no limit',
  )
  .refine(
    (namespace) => !isWithinNamespace(namespace, RESERVED_NAMESPACE),
    `must not be "${RESERVED_NAMESPACE}": that namespace is Leasehold's own`,
  );

export const tokenCreateInputSchema = z
  .strictObject({
    /** The audit names people by their e-mail address: nothing else shall look like one. */
    name: textSchema({ bytesMin: 1, bytesMax: TOKEN_NAME_BYTES_MAX }).refine(
      (name) => !name.includes('@'),
      'must not contain "@": in the audit that is a person',
    ),
    role: z.enum(TOKEN_ROLES),
    /** Limits the token to these namespaces and their children; no limit when left out. */
    namespaces: z.array(limitNamespaceSchema).min(1).max(NAMESPACES_PER_TOKEN_MAX).optional(),
    droneId: idSchema.optional(),
    expiresAt: instantSchema.optional(),
  })
  .refine((input) => (input.role === 'drone') === (input.droneId !== undefined), {
    message: 'must be given for the role drone, and for no other',
    path: ['droneId'],
  })
  .refine((input) => input.role !== 'drone' || input.namespaces === undefined, {
    message: 'must not be given for the role drone',
    path: ['namespaces'],
  });

export const tokenListInputSchema = z
  .strictObject({ cursor: cursorSchema.optional(), limit: limitSchema })
  .prefault({});

export const tokenRevokeInputSchema = z.strictObject({
  tokenId: uuidSchema,
  reason: reasonSchema.optional(),
});
