import { z } from 'zod';
import { router, viewerProcedure } from '../trpc.ts';
import { asOf } from './as-of.ts';

/** The datacenters, as this controller sees them. */
export const datacentersRouter = router({
  list: viewerProcedure
    .input(z.strictObject({}).prefault({}))
    .query(({ ctx }) => asOf(ctx.services, () => Promise.resolve(ctx.services.datacenters.list()))),
});
