import { z } from 'zod';
import { DRONE_STATUSES } from '@leasehold/keys-core';
import {
  anyDatacenterSchema,
  cursorSchema,
  idSchema,
  limitSchema,
  placedFields,
  reasonSchema,
} from './common.ts';

export const droneIdInputSchema = z.strictObject({ droneId: idSchema, ...placedFields });

export const droneListInputSchema = z
  .strictObject({
    status: z.enum(DRONE_STATUSES).optional(),
    program: idSchema.optional(),
    datacenter: anyDatacenterSchema,
    cursor: cursorSchema.optional(),
    limit: limitSchema,
  })
  .prefault({});

export const droneActInputSchema = z.strictObject({
  droneId: idSchema,
  reason: reasonSchema.optional(),
  ...placedFields,
});
