import { assertMayHold, callerOf, mayRead } from '../access/access.ts';
import {
  connectInputSchema,
  keyListInputSchema,
  keyNameSchema,
  keyPageInputSchema,
  keyRenewInputSchema,
  keyRenewableInputSchema,
  keyRevokeInputSchema,
} from '../contract/keys.ts';
import {
  clientProcedure,
  droneProcedure,
  operatorProcedure,
  router,
  viewerProcedure,
} from '../trpc.ts';
import { audited } from './audit-lease.ts';
import { NOTHING, isElsewhere } from './lease-calls.ts';

/** The keys face on the wire. Decisions are the key service's; access is judged here. */
export const keysRouter = router({
  connect: clientProcedure.input(connectInputSchema).mutation(async ({ ctx, input }) => {
    const { services, access, signal } = ctx;
    assertMayHold(access, input.key?.namespace ?? '');
    const { spawn, ...rest } = input;
    return services.reservations.connect(
      { ...rest, spawn },
      callerOf(access),
      signal,
      spawn?.datacenter,
    );
  }),

  get: viewerProcedure.input(keyNameSchema).query(async ({ ctx, input }) => {
    if (!mayRead(ctx.access, input.namespace)) return null;
    return ctx.services.keys.get(input, callerOf(ctx.access));
  }),

  list: viewerProcedure.input(keyListInputSchema).query(async ({ ctx, input }) => {
    const page = await ctx.services.keys.list(input, callerOf(ctx.access));
    return {
      ...page,
      ...(isElsewhere(ctx.services, input.datacenter) ? NOTHING : {}),
      unreachable: [],
    };
  }),

  renew: droneProcedure
    .input(keyRenewInputSchema)
    .mutation(async ({ ctx, input }) => ({ results: await ctx.services.keys.renew(input) })),

  blockRenewal: operatorProcedure
    .input(keyRenewableInputSchema)
    .mutation(async ({ ctx, input }) => {
      const answer = await ctx.services.keys.blockRenewal(input, callerOf(ctx.access));
      return audited(ctx, { action: 'keys.blockRenewal', input }, answer);
    }),

  allowRenewal: operatorProcedure
    .input(keyRenewableInputSchema)
    .mutation(async ({ ctx, input }) => {
      const answer = await ctx.services.keys.allowRenewal(input, callerOf(ctx.access));
      return audited(ctx, { action: 'keys.allowRenewal', input }, answer);
    }),

  revoke: operatorProcedure.input(keyRevokeInputSchema).mutation(async ({ ctx, input }) => {
    const answer = await ctx.services.keys.revoke(input, callerOf(ctx.access));
    return audited(ctx, { action: 'keys.revoke', input }, answer);
  }),

  waiters: viewerProcedure.input(keyPageInputSchema).query(async ({ ctx, input }) => {
    if (!mayRead(ctx.access, input.namespace)) return NOTHING;
    return ctx.services.keys.waiters(input, callerOf(ctx.access));
  }),

  history: viewerProcedure.input(keyPageInputSchema).query(async ({ ctx, input }) => {
    if (!mayRead(ctx.access, input.namespace)) return NOTHING;
    return ctx.services.keys.history(input, callerOf(ctx.access));
  }),
});
