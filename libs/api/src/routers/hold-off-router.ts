import { actorOf } from '../context.ts';
import { holdOffEndInputSchema, holdOffInputSchema } from '../contract/hold-off.ts';
import { at } from '../forwarding/elsewhere.ts';
import { fleetOperatorProcedure, router, viewerProcedure } from '../trpc.ts';

/** The time after a restore in which nothing new is granted. */
export const holdOffRouter = router({
  get: viewerProcedure
    .input(holdOffInputSchema)
    .query(({ ctx, input }) => at(ctx, input, () => ctx.services.holdOff.get())),

  /** It concerns every namespace, so it is not for an operator who is limited to some. */
  end: fleetOperatorProcedure
    .input(holdOffEndInputSchema)
    .mutation(({ ctx, input }) =>
      at(ctx, input, (act) => ctx.services.holdOff.end(act, actorOf(ctx))),
    ),
});
