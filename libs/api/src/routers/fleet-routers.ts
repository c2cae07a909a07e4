import { setTimeout as pause } from 'node:timers/promises';
import type { LogPage } from '@leasehold/keys-core';
import type { InTurn } from '@leasehold/keys-core/events';
import { tracked, type TrackedEnvelope } from '@trpc/server';
import type { z } from 'zod';
import { assertMayOffer, assertMayReport } from '../access.ts';
import { bounded } from '../bounded-input.ts';
import { asOf, inTurnOf } from '../context.ts';
import {
  ackInputSchema,
  answerInputSchema,
  backendCountInputSchema,
  backendFollowLogsInputSchema,
  backendGetInputSchema,
  backendIdInputSchema,
  backendListInputSchema,
  backendLogsInputSchema,
  backendTerminateInputSchema,
  droneActInputSchema,
  droneCountInputSchema,
  droneDrainInputSchema,
  droneIdInputSchema,
  droneListInputSchema,
  droneRemoveInputSchema,
  goodbyeInputSchema,
  heartbeatInputSchema,
  reportInputSchema,
  sessionInputSchema,
} from '../contract/fleet.ts';
import { counted, listed } from '../forwarding/across-datacenters.ts';
import { isElsewhere, placed, sendOn, type CalledContext } from '../forwarding/elsewhere.ts';
import {
  adminProcedure,
  droneProcedure,
  fleetOperatorProcedure,
  operatorProcedure,
  router,
  unlimitedViewerProcedure,
  viewerProcedure,
} from '../trpc.ts';
import { acquiring } from './lease-calls.ts';
import { bytesOfEvent } from './recording.ts';

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

  drain: fleetOperatorProcedure.input(bounded(droneDrainInputSchema)).mutation(
    placed(({ services, actor, use }, act) => {
      use?.noteWritten(bytesOfEvent(act.reason));
      return services.fleet.drain(act, actor);
    }),
  ),

  undrain: fleetOperatorProcedure.input(bounded(droneActInputSchema)).mutation(
    placed(({ services, actor, use }, act) => {
      use?.noteWritten(bytesOfEvent(act.reason));
      return services.fleet.undrain(act, actor);
    }),
  ),

  markLost: fleetOperatorProcedure.input(bounded(droneActInputSchema)).mutation(
    placed(({ services, actor, use }, act) => {
      use?.noteWritten(bytesOfEvent(act.reason));
      return services.fleet.markLost(act, actor);
    }),
  ),

  remove: adminProcedure
    .input(bounded(droneRemoveInputSchema))
    .mutation(({ ctx: { services, actor }, input }) => services.fleet.remove(input, actor)),

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

  /** The drone was told to stop. Said at the beginning of a stop, before its backends have ended. */
  goodbye: droneProcedure.input(bounded(goodbyeInputSchema)).mutation(async ({ ctx, input }) => {
    await ctx.services.fleet.goodbye(input);
    return { outcome: 'recorded' as const };
  }),

  ack: droneProcedure
    .input(bounded(ackInputSchema))
    .mutation(({ ctx, input }) => ctx.services.fleet.acknowledge(input)),

  /** What the session has asked. `isWanted`: false when nobody waits for the answer any more. */
  answer: droneProcedure
    .input(bounded(answerInputSchema))
    .mutation(({ ctx, input }) => ctx.services.fleet.answer(input)),
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

  /**
   * A part of what a backend has written, from its drone: all that is kept, or the last lines, or what follows
   * `position` of an earlier page. Also after its end, while its drone keeps it.
   */
  logs: viewerProcedure
    .input(bounded(backendLogsInputSchema))
    .query(placed((ctx, wanted) => readLog(ctx, wanted, { waitMs: 0 }))),

  /** As `logs`, page after page while it is written; ends when the backend has ended. */
  followLogs: viewerProcedure
    .input(bounded(backendFollowLogsInputSchema))
    .subscription(({ ctx, input, signal }) => followLog(ctx, input, signal ?? ctx.signal)),

  /** `gone`: it had ended before, and nothing was done. */
  terminate: operatorProcedure.input(bounded(backendTerminateInputSchema)).mutation(
    placed(async ({ services, caller, actor, use }, act) => {
      const answer = await services.keys.terminate(act, caller, actor);
      if (answer.outcome === 'terminating') use?.noteWritten(bytesOfEvent(act.reason));
      return answer;
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

type LogInput = Omit<z.output<typeof backendLogsInputSchema>, 'datacenter'>;

/** A reading is an access, which the audit keeps where it is told to. */
async function readLog(
  ctx: CalledContext,
  wanted: LogInput,
  { waitMs, inTurn }: { readonly waitMs: number; readonly inTurn?: InTurn | undefined },
): Promise<LogPage> {
  const { services, access, actor, signal } = ctx;
  const reading = { signal, inTurn };
  const page = await services.fleet.readLog({ ...wanted, waitMs }, access.namespaces, reading);
  const { readings } = services;
  if (readings?.isNew(access.principal, wanted.backendId) === true) {
    await services.audit.write({
      ...actor,
      action: 'backends.logs',
      resource: `backend:${wanted.backendId}`,
      reason: null,
    });
  }
  readings?.note(access.principal, wanted.backendId);
  return page;
}

/** How long one look waits for output; the drone answers sooner when there is some. */
const LOOK_MS = 10_000;
/** How often another datacenter is asked. */
const ELSEWHERE_MS = 1_000;

async function* followLog(
  ctx: CalledContext,
  { lastEventId, ...input }: z.output<typeof backendFollowLogsInputSchema>,
  signal: AbortSignal,
): AsyncGenerator<TrackedEnvelope<LogPage>> {
  const { datacenter, backendId } = input;
  let wanted: typeof input =
    lastEventId === undefined ? input : { ...input, from: Number(lastEventId) };
  const look = { waitMs: LOOK_MS, inTurn: inTurnOf(ctx.use) };
  while (!signal.aborted) {
    // No faster than the caller reads.
    await ctx.life.whenRead?.();
    const isHere = !isElsewhere(ctx, datacenter);
    const page = isHere
      ? await readLog({ ...ctx, signal }, withoutPlace(wanted), look)
      : ((await sendOn({ ...ctx, procedure: 'backends.logs' }, datacenter, {
          input: withoutPlace(wanted),
        })) as LogPage);
    if (page.lines.length > 0 || page.hasEnded || wanted.from === undefined) {
      yield tracked(String(page.position), page);
    }
    if (page.hasEnded) return;
    wanted = { backendId, datacenter, from: page.position };
    if (!isHere && !page.hasMore) await pause(ELSEWHERE_MS, undefined, { signal });
  }
}

function withoutPlace({ datacenter: _, ...rest }: z.output<typeof backendLogsInputSchema>) {
  return rest;
}
