import { bounded } from '../bounded-input.ts';
import { assertMayReserve, mayReadReservation } from '../access/access.ts';
import {
  moveInputSchema,
  reservationCountInputSchema,
  reservationGetInputSchema,
  reservationListInputSchema,
  reservationRefSchema,
  requestMoveInputSchema,
  reserveInputSchema,
  resolveInputSchema,
} from '../contract/reservations.ts';
import { placed } from '../forwarding/elsewhere.ts';
import { counted } from '../forwarding/counts.ts';
import { listed } from '../forwarding/lists.ts';
import { asOf } from './as-of.ts';
import { cancelEntry, moveEntry } from './auditing.ts';
import { clientProcedure, operatorProcedure, router, viewerProcedure } from '../trpc.ts';

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

  move: operatorProcedure.input(bounded(moveInputSchema)).mutation(async ({ ctx, input }) => {
    assertMayReserve(ctx.access, input.key);
    const moved = await ctx.services.reservations.move(input, ctx.caller);
    await ctx.services.audit.write(moveEntry(ctx.actor, input, moved.reservationId));
    return moved;
  }),

  requestMove: operatorProcedure.input(bounded(requestMoveInputSchema)).mutation(
    placed(async (ctx, move) => {
      assertMayReserve(ctx.access, move.key);
      await ctx.services.reservations.requestMove(move, ctx.caller);
      await ctx.services.audit.write(moveEntry(ctx.actor, move, move.reservationId));
      return ctx.services.reservations.pendingMove(move);
    }),
  ),

  cancelMove: operatorProcedure.input(bounded(reservationRefSchema)).mutation(
    placed(async (ctx, move) => {
      assertMayReserve(ctx.access, move.key);
      const isCancelled = await ctx.services.reservations.cancelMove(move);
      if (isCancelled) await ctx.services.audit.write(cancelEntry(ctx.actor, move));
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
