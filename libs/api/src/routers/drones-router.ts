import { assertMayOffer } from '../access/bindings.ts';
import { actorOf } from '../context.ts';
import {
  droneActInputSchema,
  droneIdInputSchema,
  droneListInputSchema,
} from '../contract/drones.ts';
import { ackInputSchema, heartbeatInputSchema, sessionInputSchema } from '../contract/fleet.ts';
import { at } from '../forwarding/elsewhere.ts';
import { listAt } from '../forwarding/lists.ts';
import { asOf } from './as-of.ts';
import {
  droneProcedure,
  fleetOperatorProcedure,
  router,
  unlimitedViewerProcedure,
} from '../trpc.ts';

/** Drones: what operators see and do, and the calls of the drones themselves. */
export const dronesRouter = router({
  list: unlimitedViewerProcedure
    .input(droneListInputSchema)
    .query(({ ctx, input }) =>
      listAt(ctx, input, (wanted) =>
        asOf(ctx.services, () => ctx.services.fleet.listDrones(wanted)),
      ),
    ),

  get: unlimitedViewerProcedure
    .input(droneIdInputSchema)
    .query(({ ctx, input }) =>
      at(ctx, input, ({ droneId }) => ctx.services.fleet.getDrone(droneId)),
    ),

  drain: fleetOperatorProcedure
    .input(droneActInputSchema)
    .mutation(({ ctx, input }) =>
      at(ctx, input, (act) => ctx.services.fleet.drain(act, actorOf(ctx))),
    ),

  undrain: fleetOperatorProcedure
    .input(droneActInputSchema)
    .mutation(({ ctx, input }) =>
      at(ctx, input, (act) => ctx.services.fleet.undrain(act, actorOf(ctx))),
    ),

  markLost: fleetOperatorProcedure
    .input(droneActInputSchema)
    .mutation(({ ctx, input }) =>
      at(ctx, input, (act) => ctx.services.fleet.markLost(act, actorOf(ctx))),
    ),

  session: droneProcedure.input(sessionInputSchema).subscription(async function* ({
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
    .input(heartbeatInputSchema)
    .mutation(async ({ ctx, input: { witness, ...heartbeat } }) => {
      await ctx.services.witness.consider(witness);
      const answer = await ctx.services.fleet.heartbeat(heartbeat);
      return { ...answer, witness: ctx.services.witness.told() };
    }),

  ack: droneProcedure
    .input(ackInputSchema)
    .mutation(({ ctx, input }) => ctx.services.fleet.acknowledge(input)),
});
