import { bounded } from '../../bounded-input.ts';
import { assertMayHold } from '../../access/access.ts';
import { pageInputSchema } from '../../contract/common.ts';
import {
  acquireInputSchema,
  acquireManyInputSchema,
  declareInputSchema,
  failingCallbacksInputSchema,
  leaseAtInputSchema,
  leaseContentionInputSchema,
  leaseCountInputSchema,
  leaseListInputSchema,
  leaseNameSchema,
  leasePageInputSchema,
  leaseSessionInputSchema,
  leaseTreeInputSchema,
  releaseItemSchema,
  releaseManyInputSchema,
} from '../../contract/leases.ts';
import { at, placed } from '../../forwarding/elsewhere.ts';
import { counted } from '../../forwarding/counts.ts';
import { listed } from '../../forwarding/lists.ts';
import { treeAt } from '../../forwarding/trees.ts';
import { clientProcedure, router, viewerProcedure } from '../../trpc.ts';
import { askedFor, refusing } from '../refusing.ts';
import { acquire, acquireMany, refuse } from './acquire.ts';
import { acquiring, heldCalls, release, renewableActs } from './lease-calls.ts';
import { callOf, oneByOne } from './one-by-one.ts';

/** What holders call: acquire, renew, release, give up, and receive notices of revocations. */
const holding = {
  acquire: clientProcedure.input(bounded(acquireInputSchema)).mutation(({ ctx, input }) => {
    const { witness: told, ...asked } = input;
    return refusing(
      {
        ctx,
        ...askedFor('lease', { ...input, name: input.key }),
        idempotencyKey: input.idempotencyKey,
        refuse: (error) => acquiring(ctx, told, () => refuse(ctx, asked, error)),
      },
      async () => {
        const stopWaiting = input.waitMs > 0 ? ctx.use?.startWaiting() : undefined;
        const unwatch = input.waitMs > 0 ? ctx.life.watch() : undefined;
        try {
          assertMayHold(ctx.access, input.namespace);
          return await at(ctx, input, ({ witness, ...wanted }) =>
            acquiring(ctx, witness, () => acquire(ctx, wanted)),
          );
        } finally {
          unwatch?.();
          stopWaiting?.();
        }
      },
    );
  }),

  acquireMany: clientProcedure
    .input(bounded(acquireManyInputSchema))
    .mutation(({ ctx, input: { witness, ...wanted } }) =>
      acquiring(ctx, witness, () => acquireMany(ctx, wanted)),
    ),

  releaseMany: clientProcedure.input(bounded(releaseManyInputSchema)).mutation(
    placed(async (ctx, { items }) => {
      await ctx.use?.countItems(items.length, 'urgent');
      const results = await oneByOne(
        { ...callOf(ctx), items, schema: releaseItemSchema },
        async (item) => ({ outcome: await release(ctx, 'leases', item) }),
      );
      return { results };
    }),
  ),

  /** Holders of leases and of environments receive notices of revocations here. */
  session: clientProcedure
    .input(bounded(leaseSessionInputSchema))
    .subscription(({ ctx, signal }) =>
      ctx.services.leases.revocations(ctx.caller, signal ?? ctx.signal),
    ),

  declare: clientProcedure.input(bounded(declareInputSchema)).mutation(async ({ ctx, input }) => {
    await ctx.use?.countItems(input.declarations.length);
    for (const { namespace } of input.declarations) assertMayHold(ctx.access, namespace);
    const { declarations } = input;
    const ownMax = ctx.use?.limits.declarations;
    return ctx.services.leases.declare({ declarations, ownMax }, ctx.caller);
  }),
};

/** What people look at. */
const looking = {
  declared: viewerProcedure
    .input(bounded(pageInputSchema))
    .query(({ ctx, input }) => ctx.services.leases.declared(input, ctx.caller)),

  list: viewerProcedure
    .input(bounded(leaseListInputSchema))
    .query(listed(({ services, caller }, wanted) => services.leases.list(wanted, caller))),

  count: viewerProcedure
    .input(bounded(leaseCountInputSchema))
    .query(counted(({ services, caller }, wanted) => services.leases.count(wanted, caller))),

  get: viewerProcedure
    .input(bounded(leaseNameSchema))
    .query(placed(({ services, caller }, name) => services.leases.get(name, caller))),

  tree: viewerProcedure
    .input(bounded(leaseTreeInputSchema))
    .query(({ ctx, input }) =>
      treeAt(ctx, input, (wanted) => ctx.services.leases.tree(wanted, ctx.caller)),
    ),

  waiters: viewerProcedure
    .input(bounded(leasePageInputSchema))
    .query(placed(({ services, caller }, page) => services.leases.waiters(page, caller))),

  contention: viewerProcedure
    .input(bounded(leaseContentionInputSchema))
    .query(listed(({ services, caller }, wanted) => services.leases.contention(wanted, caller))),

  failingCallbacks: viewerProcedure
    .input(bounded(failingCallbacksInputSchema))
    .query(
      listed(({ services, caller }, wanted) => services.leases.failingCallbacks(wanted, caller)),
    ),

  history: viewerProcedure
    .input(bounded(leasePageInputSchema))
    .query(placed(({ services, caller }, page) => services.leases.history(page, caller))),

  /** Who held it at a moment. */
  at: viewerProcedure
    .input(bounded(leaseAtInputSchema))
    .query(placed(({ services, caller }, asked) => services.leases.at(asked, caller))),
};

/** The leases face on the wire. The lease service decides, also what a caller may read. */
export const leasesRouter = router({
  ...holding,
  ...heldCalls('leases'),
  ...looking,
  ...renewableActs('leases'),
});
