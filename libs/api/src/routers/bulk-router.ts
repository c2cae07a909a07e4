import { callerOf } from '../access/access.ts';
import { actorOf } from '../context.ts';
import { bulkIdInputSchema, bulkStartInputSchema } from '../contract/bulk.ts';
import { fleetOperatorProcedure, router, unlimitedViewerProcedure } from '../trpc.ts';

/** One act on many grants, with progress. */
export const bulkRouter = router({
  start: fleetOperatorProcedure
    .input(bulkStartInputSchema)
    .mutation(({ ctx, input }) =>
      ctx.services.bulk.start(input, callerOf(ctx.access), actorOf(ctx)),
    ),

  abort: fleetOperatorProcedure
    .input(bulkIdInputSchema)
    .mutation(({ ctx, input }) => ctx.services.bulk.abort(input.bulkId, actorOf(ctx))),

  get: unlimitedViewerProcedure
    .input(bulkIdInputSchema)
    .query(({ ctx, input }) => ctx.services.bulk.get(input.bulkId)),

  watch: unlimitedViewerProcedure
    .input(bulkIdInputSchema)
    .subscription(({ ctx, input, signal }) =>
      ctx.services.bulk.watch(input.bulkId, signal ?? ctx.signal),
    ),
});
