import { z } from 'zod';

/** A day: the time for which the buckets are kept. */
export const STATS_WINDOW_MINUTES_MAX = 1_440;

export const statsOverviewInputSchema = z
  .strictObject({
    windowMinutes: z.number().int().min(5).max(STATS_WINDOW_MINUTES_MAX).default(60),
  })
  .prefault({});
