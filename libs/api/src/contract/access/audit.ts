import { z } from 'zod';
import { LIMITS } from '@leasehold/keys-core';
import { cursorSchema, instantSchema, limitSchema, textSchema } from '../common.ts';

const filterSchema = textSchema({ bytesMin: 1, bytesMax: LIMITS.reasonBytesMax });

export const auditListInputSchema = z
  .strictObject({
    actor: filterSchema.optional(),
    action: filterSchema.optional(),
    resource: filterSchema.optional(),
    /** Inclusive. */
    from: instantSchema.optional(),
    /** Exclusive. */
    to: instantSchema.optional(),
    cursor: cursorSchema.optional(),
    limit: limitSchema,
  })
  .prefault({});
