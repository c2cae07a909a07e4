import { z } from 'zod';
import { LIMITS } from '@leasehold/keys-core';
import { BULK_ACTIONS } from '@leasehold/keys-core';
import { grantRefSchema, reasonSchema, uuidSchema } from './common.ts';

export const bulkStartInputSchema = z
  .strictObject({
    action: z.enum(BULK_ACTIONS),
    /** For `revoke`; graceful by default. */
    mode: z.enum(['graceful', 'force']).optional(),
    reason: reasonSchema,
    /** A frozen selection: never a predicate, and never empty. */
    items: z
      .array(grantRefSchema)
      .min(1)
      .max(LIMITS.bulkItemsMax)
      .refine(
        (items) => new Set(items.map(({ leaseId }) => leaseId)).size === items.length,
        'must name each lease once',
      ),
  })
  .refine((input) => input.action === 'revoke' || input.mode === undefined, {
    message: 'is for the action revoke only',
    path: ['mode'],
  });

export const bulkIdInputSchema = z.strictObject({ bulkId: uuidSchema });
