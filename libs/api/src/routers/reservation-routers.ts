import { LeaseError } from '@leasehold/keys-core';
import type { PendingMove } from '@leasehold/keys-core/reservations';
import type { z } from 'zod';
import {
  accessFrom,
  assertMayHold,
  assertMayReserve,
  assertRole,
  callerOf,
  mayReadReservation,
  type Access,
} from '../access.ts';
import { bounded } from '../bounded-input.ts';
import { isForwardable, isGrantingCall } from '../call-kinds.ts';
import { asOf, type ApiContext } from '../context.ts';
import {
  carryOutInputSchema,
  moveInputSchema,
  peerConnectInputSchema,
  peerMoveInputSchema,
  peerResolveInputSchema,
  requestMoveInputSchema,
  reservationCountInputSchema,
  reservationGetInputSchema,
  reservationListInputSchema,
  reservationRefSchema,
  reserveInputSchema,
  resolveInputSchema,
  type peerCallerSchema,
} from '../contract/reservations.ts';
import { counted, listed } from '../forwarding/across-datacenters.ts';
import { placed } from '../forwarding/elsewhere.ts';
import {
  clientProcedure,
  operatorProcedure,
  peerProcedure,
  router,
  viewerProcedure,
} from '../trpc.ts';
import { bytesOfEvent } from './recording.ts';

/** Which datacenter a key lives in, on the wire. */
export const reservationsRouter = router({
  reserve: clientProcedure.input(bounded(reserveInputSchema)).mutation(async ({ ctx, input }) => {
    assertMayReserve(ctx.access, input.key);
    const { outcome, reservationId, datacenter } = await ctx.services.reservations.reserve(
      input,
      ctx.use,
    );
    return { outcome, reservationId, datacenter };
  }),

  resolve: viewerProcedure.input(bounded(resolveInputSchema)).query(async ({ ctx, input }) => {
    if (!mayReadReservation(ctx.access, input.key)) return { outcome: 'not_found' as const };
    return ctx.services.reservations.resolve({ key: input.key, isFresh: input.fresh });
  }),

  get: viewerProcedure.input(bounded(reservationGetInputSchema)).query(async ({ ctx, input }) => {
    if (!mayReadReservation(ctx.access, input.key)) return null;
    return ctx.services.reservations.get(input);
  }),

  move: operatorProcedure.input(bounded(moveInputSchema)).mutation(({ ctx, input }) => {
    assertMayReserve(ctx.access, input.key);
    ctx.use?.startWriting(bytesOfEvent(input.reason));
    return ctx.services.reservations.move(input, ctx.caller, ctx.source);
  }),

  requestMove: operatorProcedure.input(bounded(requestMoveInputSchema)).mutation(
    // Null from a datacenter of an older version, when the move is carried out already.
    placed((ctx, move): Promise<PendingMove | null> => {
      assertMayReserve(ctx.access, move.key);
      ctx.use?.startWriting(bytesOfEvent(move.reason));
      return ctx.services.reservations.requestMove(move, ctx.caller, ctx.source);
    }),
  ),

  cancelMove: operatorProcedure.input(bounded(reservationRefSchema)).mutation(
    placed(async (ctx, move) => {
      assertMayReserve(ctx.access, move.key);
      const { reservations } = ctx.services;
      const isCancelled = await reservations.cancelMove(move, ctx.caller, ctx.source);
      return { outcome: isCancelled ? ('cancelled' as const) : ('not_found' as const) };
    }),
  ),

  pendingMove: viewerProcedure.input(bounded(reservationRefSchema)).query(
    placed(async ({ access, services }, move) => {
      if (!mayReadReservation(access, move.key)) return null;
      return services.reservations.pendingMove(move);
    }),
  ),

  list: viewerProcedure
    .input(bounded(reservationListInputSchema))
    .query(
      listed(({ services, caller }, wanted) =>
        asOf(services, () => services.reservations.list(wanted, caller)),
      ),
    ),

  count: viewerProcedure
    .input(bounded(reservationCountInputSchema))
    .query(counted(({ services, caller }, wanted) => services.reservations.count(wanted, caller))),
});

// What controllers of other datacenters ask of this one. The secret of the pair says which datacenter
// asks; that datacenter vouches for its caller, which may do here at most what an operator may.
// Nothing that arrives here is forwarded.

/** The context of a caller of another datacenter, in this one. */
type ForwardedContext = ApiContext & { readonly access: Access };

/** Calls a procedure by its path, as the caller that the context names. */
export type CallProcedure = (ctx: ApiContext, path: string, input: unknown) => Promise<unknown>;

/**
 * If a third datacenter refuses this one, the asking one is told that the third is unreachable from
 * here. `peer.refused` would mean that this one refused the caller.
 */
const answering = peerProcedure.use(async ({ ctx, next }) => {
  const result = await next();
  const cause = result.ok ? undefined : result.error.cause;
  if (!(cause instanceof LeaseError) || cause.code !== 'peer.refused') return result;
  throw new LeaseError(
    'reservation.datacenter_unreachable',
    `The datacenter "${ctx.services.datacenter}" cannot ask "${String(cause.details['datacenter'])}": its credentials were refused there.`,
    { details: cause.details, cause },
  );
});

/** @param callProcedure over everything but this router. */
export function createPeerRouter(callProcedure: CallProcedure) {
  return router({
    /** Whether this datacenter answers, and is the one that was meant. */
    ping: peerProcedure.query(({ ctx }) => ({ datacenter: ctx.services.datacenter })),

    /** What the drones of this datacenter offer. */
    offers: peerProcedure.query(({ ctx }) => ctx.services.fleet.offeredPrograms()),

    connect: answering.input(bounded(peerConnectInputSchema)).mutation(({ ctx, input }) => {
      const { access } = forwardedContext(ctx, input.caller);
      assertRole(access, 'client');
      assertMayHold(access, input.input.key.namespace);
      ctx.services.assertNotPressed(access.role);
      return ctx.services.reservations.connectHere(input.input, callerOf(access), ctx.signal);
    }),

    /** The state of a reservation of this datacenter; one that can be proven is activated. */
    resolve: answering
      .input(bounded(peerResolveInputSchema))
      .mutation(({ ctx, input }) =>
        ctx.services.reservations.reservationStatus(input.reservationId, input.key),
      ),

    move: answering.input(bounded(peerMoveInputSchema)).mutation(({ ctx, input }) => {
      const { access, source } = forwardedContext(ctx, input.caller);
      assertRole(access, 'operator');
      assertMayReserve(access, input.input.key);
      return ctx.services.reservations.moveHere(input.input, callerOf(access), source);
    }),

    /** Carries out a procedure that may be forwarded, with all its own checks. */
    carryOut: answering.input(bounded(carryOutInputSchema)).mutation(({ ctx, input }) => {
      const { procedure, caller } = input;
      if (!isForwardable(procedure)) {
        throw new LeaseError('auth.forbidden', `"${procedure}" cannot be forwarded.`);
      }
      // As callers of this datacenter are.
      if (isGrantingCall(procedure)) ctx.services.assertNotPressed(caller.role);
      return callProcedure(forwardedContext(ctx, caller), procedure, input.input);
    }),
  });
}

function forwardedContext(
  ctx: ForwardedContext,
  { source, ...caller }: z.output<typeof peerCallerSchema>,
): ForwardedContext {
  const { services, signal, life, use, requestId } = ctx;
  const access = accessFrom(ctx.access.peer ?? '', caller);
  // What it holds here counts as its own, and not as that of all callers of its datacenter.
  const own = use?.heldBy(access.principal, access.role);
  return { access, services, signal, life, use: own, source, requestId, isForwarded: true };
}
