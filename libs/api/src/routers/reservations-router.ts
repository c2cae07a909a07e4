import { LeaseError, keyNameOf, type ReservationKey } from '@leasehold/keys-core';
import { actorOf, type ApiContext } from '../context.ts';
import { assertMayHold, callerOf, mayRead, type Access } from '../access/access.ts';
import {
  moveInputSchema,
  reservationGetInputSchema,
  reservationListInputSchema,
  reserveInputSchema,
  resolveInputSchema,
} from '../contract/reservations.ts';
import { listAt } from '../forwarding/lists.ts';
import { asOf } from './as-of.ts';
import { clientProcedure, operatorProcedure, router, viewerProcedure } from '../trpc.ts';

/** Which datacenter a key lives in, on the wire. */
export const reservationsRouter = router({
  reserve: clientProcedure.input(reserveInputSchema).mutation(async ({ ctx, input }) => {
    assertMayReserve(ctx.access, input.key);
    const { outcome, reservationId, datacenter } = await ctx.services.reservations.reserve(input);
    return { outcome, reservationId, datacenter };
  }),

  resolve: viewerProcedure.input(resolveInputSchema).query(async ({ ctx, input }) => {
    if (!mayReadKey(ctx.access, input.key)) return { outcome: 'not_found' as const };
    return ctx.services.reservations.resolve({ key: input.key, isFresh: input.fresh });
  }),

  get: viewerProcedure.input(reservationGetInputSchema).query(async ({ ctx, input }) => {
    if (!mayReadKey(ctx.access, input.key)) return null;
    return ctx.services.reservations.get(input);
  }),

  move: operatorProcedure.input(moveInputSchema).mutation(async ({ ctx, input }) => {
    assertMayReserve(ctx.access, input.key);
    const moved = await ctx.services.reservations.move(input, callerOf(ctx.access));
    await auditMove(ctx, input, moved.reservationId);
    return moved;
  }),

  list: viewerProcedure
    .input(reservationListInputSchema)
    .query(({ ctx, input }) =>
      listAt(ctx, input, (wanted) =>
        asOf(ctx.services, () => ctx.services.reservations.list(wanted, callerOf(ctx.access))),
      ),
    ),
});

/** Who is limited to namespaces sees the reservations of keys in them, and no others. */
function mayReadKey(access: Access, key: ReservationKey): boolean {
  const named = keyNameOf(key);
  return access.namespaces === null || (named !== undefined && mayRead(access, named.namespace));
}

/** @throws {LeaseError} `auth.forbidden`. */
function assertMayReserve(access: Access, key: ReservationKey): void {
  const named = keyNameOf(key);
  if (named !== undefined) assertMayHold(access, named.namespace);
  else if (access.namespaces !== null) {
    throw new LeaseError('auth.forbidden', 'This token is limited to other namespaces.');
  }
}

async function auditMove(
  ctx: ApiContext & { readonly access: Access },
  input: { readonly key: ReservationKey; readonly toDatacenter: string; readonly reason: string },
  reservationId: string,
): Promise<void> {
  const named = keyNameOf(input.key);
  const resource =
    named === undefined
      ? `reservation:${JSON.stringify(input.key)}`
      : `key:${named.namespace}/${named.name}`;
  await ctx.services.audit.write({
    ...actorOf(ctx),
    action: 'reservations.move',
    resource,
    reason: input.reason,
    detail: { toDatacenter: input.toDatacenter, reservationId },
  });
}
