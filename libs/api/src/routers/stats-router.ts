import { statsOverviewInputSchema } from '../contract/stats.ts';
import { router, unlimitedViewerProcedure } from '../trpc.ts';

/** Numbers over every namespace. */
export const statsRouter = router({
  overview: unlimitedViewerProcedure
    .input(statsOverviewInputSchema)
    .query(({ ctx, input }) => ctx.services.stats.overview(input)),
});
