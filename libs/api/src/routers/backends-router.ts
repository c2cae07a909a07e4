import { callerOf } from '../access/access.ts';
import { actorOf } from '../context.ts';
import {
  backendIdInputSchema,
  backendListInputSchema,
  backendTerminateInputSchema,
} from '../contract/backends.ts';
import { reportInputSchema } from '../contract/fleet.ts';
import { asOf } from './as-of.ts';
import { droneProcedure, operatorProcedure, router, viewerProcedure } from '../trpc.ts';

/** Backends: what operators see and stop, and what drones report. */
export const backendsRouter = router({
  get: viewerProcedure
    .input(backendIdInputSchema)
    .query(({ ctx, input }) =>
      asOf(ctx.services, () =>
        ctx.services.fleet.getBackend(input.backendId, ctx.access.namespaces),
      ),
    ),

  list: viewerProcedure
    .input(backendListInputSchema)
    .query(({ ctx, input }) =>
      asOf(ctx.services, () => ctx.services.fleet.listBackends(input, ctx.access.namespaces)),
    ),

  watch: viewerProcedure.input(backendIdInputSchema).subscription(async function* ({
    ctx,
    input,
    signal,
  }) {
    const until = signal ?? ctx.signal;
    yield* ctx.services.fleet.watchBackend(input.backendId, ctx.access.namespaces, until);
  }),

  terminate: operatorProcedure
    .input(backendTerminateInputSchema)
    .mutation(async ({ ctx, input }) => {
      await ctx.services.keys.terminate(input, callerOf(ctx.access));
      await ctx.services.audit.write({
        ...actorOf(ctx),
        action: 'backends.terminate',
        resource: `backend:${input.backendId}`,
        reason: input.reason,
        detail: { mode: input.mode },
      });
      return { outcome: 'terminating' as const };
    }),

  report: droneProcedure
    .input(reportInputSchema)
    .mutation(async ({ ctx, input }) => ({ outcome: await ctx.services.keys.report(input) })),
});
