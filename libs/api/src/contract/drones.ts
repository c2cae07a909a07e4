import { z } from 'zod';
import { DRONE_STATUSES } from '@leasehold/keys-core';
import { cursorSchema, idSchema, limitSchema, reasonSchema } from './common.ts';

export const droneIdInputSchema = z.strictObject({ droneId: idSchema });

export const droneListInputSchema = z
  .strictObject({
    status: z.enum(DRONE_STATUSES).optional(),
    program: idSchema.optional(),
    cursor: cursorSchema.optional(),
    limit: limitSchema,
  })
  .prefault({});

export const droneActInputSchema = z.strictObject({
  droneId: idSchema,
  reason: reasonSchema.optional(),
});
