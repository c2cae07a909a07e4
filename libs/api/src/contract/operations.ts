/** Bulk actions, hold-offs and statistics. */
import { z } from 'zod';
import { BULK_ACTIONS, LIMITS } from '@leasehold/keys-core';
import {
  datacenterSchema,
  grantRefSchema,
  pageFields,
  placedFields,
  reasonSchema,
  uuidSchema,
} from './common.ts';

/** A frozen selection: never a predicate, and never empty. */
const bulkItemsSchema = z
  .array(grantRefSchema)
  .min(1)
  .max(LIMITS.bulkItemsMax)
  .refine(
    (items) => new Set(items.map(({ leaseId }) => leaseId)).size === items.length,
    'must name each lease once',
  );

export const bulkPreviewInputSchema = z.strictObject({ items: bulkItemsSchema });

export const bulkStartInputSchema = z
  .strictObject({
    action: z.enum(BULK_ACTIONS),
    /** For `revoke`; graceful by default. */
    mode: z.enum(['graceful', 'force']).optional(),
    reason: reasonSchema,
    items: bulkItemsSchema,
  })
  .refine((input) => input.action === 'revoke' || input.mode === undefined, {
    message: 'is for the action revoke only',
    path: ['mode'],
  });

export const bulkIdInputSchema = z.strictObject({ bulkId: uuidSchema });

export const bulkItemsInputSchema = bulkIdInputSchema.extend(pageFields);

export const holdOffInputSchema = z.strictObject(placedFields).prefault({});

export const holdOffEndInputSchema = z.strictObject({
  reason: reasonSchema,
  /** Of the hold-off that the caller has seen: another one goes on. */
  epoch: z.number().int().positive().optional(),
  ...placedFields,
});

export const takeBackInputSchema = z.strictObject({
  datacenter: datacenterSchema,
  reason: reasonSchema,
});

export const giveUpInputSchema = takeBackInputSchema.extend({
  /** Nothing runs there, and the caller answers for it: nobody waits. */
  abandon: z.boolean().default(false),
});

/** A day: the time for which the buckets are kept. */
const STATS_WINDOW_MINUTES_MAX = 1_440;

export const statsOverviewInputSchema = z
  .strictObject({
    windowMinutes: z.number().int().min(5).max(STATS_WINDOW_MINUTES_MAX).default(60),
  })
  .prefault({});
