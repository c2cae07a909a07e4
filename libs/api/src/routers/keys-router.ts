import { reservationKeyOf } from '@leasehold/keys-core';
import type { KeyView } from '@leasehold/keys-core/keys';
import { assertMayHold, callerOf, mayRead } from '../access/access.ts';
import { assertMayStart } from '../access/bindings.ts';
import {
  connectInputSchema,
  keyListInputSchema,
  keyNameSchema,
  keyPageInputSchema,
  keyRenewInputSchema,
  keyRenewableInputSchema,
  keyRevokeInputSchema,
} from '../contract/keys.ts';
import { at, sendOn, type CalledContext } from '../forwarding/elsewhere.ts';
import { listAt } from '../forwarding/lists.ts';
import {
  clientProcedure,
  droneProcedure,
  operatorProcedure,
  router,
  viewerProcedure,
} from '../trpc.ts';
import { audited } from './access/audit-lease.ts';
import { renewing } from './leases/lease-calls.ts';

/** The keys face on the wire. The key service decides, also what a caller may read. */
export const keysRouter = router({
  connect: clientProcedure.input(connectInputSchema).mutation(async ({ ctx, input }) => {
    const { services, access, signal } = ctx;
    assertMayHold(access, input.key?.namespace ?? '');
    assertMayStart(access, input.spawn?.program);
    const { spawn, ...rest } = input;
    const stopWaiting = ctx.use?.startWaiting();
    try {
      return await services.reservations.connect({ ...rest, spawn }, callerOf(access), signal, {
        datacenter: spawn?.datacenter,
        use: ctx.use,
      });
    } finally {
      stopWaiting?.();
    }
  }),

  get: viewerProcedure.input(keyNameSchema).query(({ ctx, input }) =>
    at(ctx, input, async (name) => {
      // Before the key is looked for elsewhere.
      if (!mayRead(ctx.access, name.namespace)) return null;
      const here = await ctx.services.keys.get(name, callerOf(ctx.access));
      return here ?? (input.datacenter === undefined ? atHome(ctx, name) : null);
    }),
  ),

  list: viewerProcedure
    .input(keyListInputSchema)
    .query(({ ctx, input }) =>
      listAt(ctx, input, (wanted) => ctx.services.keys.list(wanted, callerOf(ctx.access))),
    ),

  renew: droneProcedure
    .input(keyRenewInputSchema)
    .mutation(({ ctx, input: { witness, ...renewals } }) =>
      renewing(ctx, witness, async () => {
        await ctx.use?.countItems(renewals.renewals.length, 'urgent');
        return { results: await ctx.services.keys.renew(renewals) };
      }),
    ),

  blockRenewal: operatorProcedure.input(keyRenewableInputSchema).mutation(({ ctx, input }) =>
    at(ctx, input, async (act) => {
      const answer = await ctx.services.keys.blockRenewal(act, callerOf(ctx.access));
      return audited(ctx, { action: 'keys.blockRenewal', input: act }, answer);
    }),
  ),

  allowRenewal: operatorProcedure.input(keyRenewableInputSchema).mutation(({ ctx, input }) =>
    at(ctx, input, async (act) => {
      const answer = await ctx.services.keys.allowRenewal(act, callerOf(ctx.access));
      return audited(ctx, { action: 'keys.allowRenewal', input: act }, answer);
    }),
  ),

  revoke: operatorProcedure.input(keyRevokeInputSchema).mutation(({ ctx, input }) =>
    at(ctx, input, async (act) => {
      const answer = await ctx.services.keys.revoke(act, callerOf(ctx.access));
      return audited(ctx, { action: 'keys.revoke', input: act }, answer);
    }),
  ),

  waiters: viewerProcedure
    .input(keyPageInputSchema)
    .query(({ ctx, input }) =>
      at(ctx, input, (page) => ctx.services.keys.waiters(page, callerOf(ctx.access))),
    ),

  history: viewerProcedure
    .input(keyPageInputSchema)
    .query(({ ctx, input }) =>
      at(ctx, input, (page) => ctx.services.keys.history(page, callerOf(ctx.access))),
    ),
});

/**
 * A key that is not here, from its home: a caller that names no datacenter wants to know who holds
 * the key. Null when it is reserved nowhere else.
 */
async function atHome(
  ctx: CalledContext,
  name: { readonly namespace: string; readonly name: string },
): Promise<KeyView | null> {
  const { reservations, datacenters } = ctx.services;
  if (ctx.isForwarded || datacenters.peers.length === 0) return null;
  const home = await reservations.resolve({ key: reservationKeyOf(name), isFresh: true });
  if (home.outcome === 'not_found' || !datacenters.peers.includes(home.datacenter)) return null;
  return (await sendOn(ctx, home.datacenter, { input: name })) as KeyView | null;
}
