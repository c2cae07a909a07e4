import { bounded } from '../bounded-input.ts';
import { assertMayOffer, assertMayReport } from '../access/bindings.ts';
import {
  ackInputSchema,
  backendGetInputSchema,
  backendIdInputSchema,
  backendCountInputSchema,
  backendListInputSchema,
  backendTerminateInputSchema,
  droneActInputSchema,
  droneIdInputSchema,
  droneCountInputSchema,
  droneListInputSchema,
  heartbeatInputSchema,
  reportInputSchema,
  sessionInputSchema,
} from '../contract/fleet.ts';
import { placed } from '../forwarding/elsewhere.ts';
import { counted } from '../forwarding/counts.ts';
import { listed } from '../forwarding/lists.ts';
import {
  droneProcedure,
  fleetOperatorProcedure,
  operatorProcedure,
  router,
  unlimitedViewerProcedure,
  viewerProcedure,
} from '../trpc.ts';
import { asOf } from './as-of.ts';
import { acquiring } from './leases/lease-calls.ts';

/** Drones: what operators see and do, and the calls of the drones themselves. */
export const dronesRouter = router({
  list: unlimitedViewerProcedure
    .input(bounded(droneListInputSchema))
    .query(
      listed(({ services }, wanted) => asOf(services, () => services.fleet.listDrones(wanted))),
    ),

  count: unlimitedViewerProcedure
    .input(bounded(droneCountInputSchema))
    .query(counted(({ services }, wanted) => services.fleet.countDrones(wanted))),

  get: unlimitedViewerProcedure
    .input(bounded(droneIdInputSchema))
    .query(placed(({ services }, { droneId }) => services.fleet.getDrone(droneId))),

  drain: fleetOperatorProcedure
    .input(bounded(droneActInputSchema))
    .mutation(placed(({ services, actor }, act) => services.fleet.drain(act, actor))),

  undrain: fleetOperatorProcedure
    .input(bounded(droneActInputSchema))
    .mutation(placed(({ services, actor }, act) => services.fleet.undrain(act, actor))),

  markLost: fleetOperatorProcedure
    .input(bounded(droneActInputSchema))
    .mutation(placed(({ services, actor }, act) => services.fleet.markLost(act, actor))),

  session: droneProcedure.input(bounded(sessionInputSchema)).subscription(async function* ({
    ctx,
    input,
    signal,
  }) {
    assertMayOffer(ctx.access, input);
    const { witness, ...request } = input;
    await ctx.services.witness.consider(witness);
    yield* ctx.services.fleet.session(request, signal ?? ctx.signal);
  }),

  heartbeat: droneProcedure
    .input(bounded(heartbeatInputSchema))
    .mutation(({ ctx, input: { witness, ...heartbeat } }) =>
      acquiring(ctx, witness, () => ctx.services.fleet.heartbeat(heartbeat)),
    ),

  ack: droneProcedure
    .input(bounded(ackInputSchema))
    .mutation(({ ctx, input }) => ctx.services.fleet.acknowledge(input)),
});

/** Backends: what operators see and stop, and what drones report. */
export const backendsRouter = router({
  get: viewerProcedure
    .input(bounded(backendGetInputSchema))
    .query(
      placed(({ services, access }, { backendId }) =>
        asOf(services, () => services.fleet.getBackend(backendId, access.namespaces)),
      ),
    ),

  list: viewerProcedure
    .input(bounded(backendListInputSchema))
    .query(
      listed(({ services, access }, wanted) =>
        asOf(services, () => services.fleet.listBackends(wanted, access.namespaces)),
      ),
    ),

  count: viewerProcedure
    .input(bounded(backendCountInputSchema))
    .query(
      counted(({ services, access }, wanted) =>
        services.fleet.countBackends(wanted, access.namespaces),
      ),
    ),

  watch: viewerProcedure
    .input(bounded(backendIdInputSchema))
    .subscription(({ ctx, input, signal }) =>
      ctx.services.fleet.watchBackend(input.backendId, ctx.access.namespaces, signal ?? ctx.signal),
    ),

  terminate: operatorProcedure.input(bounded(backendTerminateInputSchema)).mutation(
    placed(async ({ services, caller, actor }, act) => {
      await services.keys.terminate(act, caller);
      await services.audit.write({
        ...actor,
        action: 'backends.terminate',
        resource: `backend:${act.backendId}`,
        reason: act.reason,
        detail: { mode: act.mode },
      });
      return { outcome: 'terminating' as const };
    }),
  ),

  /**
   * `recorded`: the report changed the backend's status, or repeated it. `ignored`: it was late.
   * `kill`: this backend is over as far as the database is concerned; stop it hard, now.
   */
  report: droneProcedure.input(bounded(reportInputSchema)).mutation(async ({ ctx, input }) => {
    assertMayReport(ctx.access, input.address);
    return { outcome: await ctx.services.keys.report(input) };
  }),
});
