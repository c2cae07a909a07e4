import { z } from 'zod';
import { BACKEND_STATUSES } from '@leasehold/keys-core';
import {
  anyDatacenterSchema,
  cursorSchema,
  idSchema,
  limitSchema,
  nameSchema,
  namespaceSchema,
  placedFields,
  reasonSchema,
} from './common.ts';

export const backendIdInputSchema = z.strictObject({ backendId: idSchema });

export const backendGetInputSchema = backendIdInputSchema.extend(placedFields);

export const backendListInputSchema = z
  .strictObject({
    droneId: idSchema.optional(),
    status: z.enum(BACKEND_STATUSES).optional(),
    /** Only backends that have not terminated. */
    live: z.boolean().optional(),
    program: idSchema.optional(),
    namespace: namespaceSchema.optional(),
    name: nameSchema.optional(),
    datacenter: anyDatacenterSchema,
    cursor: cursorSchema.optional(),
    limit: limitSchema,
  })
  .prefault({});

export const backendTerminateInputSchema = z.strictObject({
  backendId: idSchema,
  mode: z.enum(['soft', 'hard']),
  reason: reasonSchema.optional(),
  ...placedFields,
});
