import { bounded } from '../bounded-input.ts';
import { findInputSchema } from '../contract/search.ts';
import { findWhere } from '../forwarding/found.ts';
import { router, viewerProcedure } from '../trpc.ts';

/** Anything by any part of its name. The search service decides what the caller may see. */
export const searchRouter = router({
  find: viewerProcedure
    .input(bounded(findInputSchema))
    .query(({ ctx, input }) => findWhere(ctx, input)),
});
