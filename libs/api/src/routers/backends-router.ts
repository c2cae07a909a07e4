import { callerOf } from '../access/access.ts';
import { assertMayReport } from '../access/bindings.ts';
import { actorOf } from '../context.ts';
import {
  backendGetInputSchema,
  backendIdInputSchema,
  backendListInputSchema,
  backendTerminateInputSchema,
} from '../contract/backends.ts';
import { reportInputSchema } from '../contract/fleet.ts';
import { at } from '../forwarding/elsewhere.ts';
import { listAt } from '../forwarding/lists.ts';
import { droneProcedure, operatorProcedure, router, viewerProcedure } from '../trpc.ts';
import { asOf } from './as-of.ts';

/** Backends: what operators see and stop, and what drones report. */
export const backendsRouter = router({
  get: viewerProcedure
    .input(backendGetInputSchema)
    .query(({ ctx, input }) =>
      at(ctx, input, ({ backendId }) =>
        asOf(ctx.services, () => ctx.services.fleet.getBackend(backendId, ctx.access.namespaces)),
      ),
    ),

  list: viewerProcedure
    .input(backendListInputSchema)
    .query(({ ctx, input }) =>
      listAt(ctx, input, (wanted) =>
        asOf(ctx.services, () => ctx.services.fleet.listBackends(wanted, ctx.access.namespaces)),
      ),
    ),

  watch: viewerProcedure.input(backendIdInputSchema).subscription(async function* ({
    ctx,
    input,
    signal,
  }) {
    const until = signal ?? ctx.signal;
    yield* ctx.services.fleet.watchBackend(input.backendId, ctx.access.namespaces, until);
  }),

  terminate: operatorProcedure.input(backendTerminateInputSchema).mutation(({ ctx, input }) =>
    at(ctx, input, async (act) => {
      await ctx.services.keys.terminate(act, callerOf(ctx.access));
      await ctx.services.audit.write({
        ...actorOf(ctx),
        action: 'backends.terminate',
        resource: `backend:${act.backendId}`,
        reason: act.reason,
        detail: { mode: act.mode },
      });
      return { outcome: 'terminating' as const };
    }),
  ),

  report: droneProcedure.input(reportInputSchema).mutation(async ({ ctx, input }) => {
    assertMayReport(ctx.access, input.address);
    return { outcome: await ctx.services.keys.report(input) };
  }),
});
