import type { ReleaseOutcome } from '@leasehold/keys-core';
import type { z } from 'zod';
import { assertMayHold, callerOf } from '../../access/access.ts';
import {
  acquireInputSchema,
  acquireManyInputSchema,
  cancelInputSchema,
  declareInputSchema,
  leaseContentionInputSchema,
  leaseDeclaredInputSchema,
  leaseHeartbeatInputSchema,
  leaseListInputSchema,
  leaseNameSchema,
  leasePageInputSchema,
  leaseRenewableInputSchema,
  leaseRevokeInputSchema,
  leaseSessionInputSchema,
  leaseTreeInputSchema,
  releaseInputSchema,
  releaseItemSchema,
  releaseManyInputSchema,
} from '../../contract/leases.ts';
import { at, type CalledContext } from '../../forwarding/elsewhere.ts';
import { listAt } from '../../forwarding/lists.ts';
import { treeAt } from '../../forwarding/trees.ts';
import { clientProcedure, operatorProcedure, router, viewerProcedure } from '../../trpc.ts';
import { acquire, acquireMany } from './acquire.ts';
import { audited } from '../access/audit-lease.ts';
import { acquiring, renewing, renewMany } from './lease-calls.ts';
import { oneByOne } from './one-by-one.ts';

/** What holders call: acquire, renew, release, give up, and receive notices of revocations. */
const holding = {
  acquire: clientProcedure.input(acquireInputSchema).mutation(async ({ ctx, input }) => {
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
  }),

  acquireMany: clientProcedure
    .input(acquireManyInputSchema)
    .mutation(({ ctx, input: { witness, ...wanted } }) =>
      acquiring(ctx, witness, () => acquireMany(ctx, wanted)),
    ),

  heartbeat: clientProcedure
    .input(leaseHeartbeatInputSchema)
    .mutation(({ ctx, input }) =>
      at(ctx, input, ({ witness, ...sent }) =>
        renewing(ctx, witness, () => renewMany(ctx, ctx.services.leases, sent)),
      ),
    ),

  release: clientProcedure
    .input(releaseInputSchema)
    .mutation(({ ctx, input }) =>
      at(ctx, input, async (sent) => ({ outcome: await release(ctx, sent) })),
    ),

  releaseMany: clientProcedure.input(releaseManyInputSchema).mutation(({ ctx, input }) =>
    at(ctx, input, async ({ items }) => {
      await ctx.use?.countItems(items.length, 'urgent');
      const results = await oneByOne(
        { services: ctx.services, path: ctx.procedure, items, schema: releaseItemSchema },
        async (item) => ({ outcome: await release(ctx, item) }),
      );
      return { results };
    }),
  ),

  cancel: clientProcedure.input(cancelInputSchema).mutation(({ ctx, input }) =>
    at(ctx, input, async (sent) => ({
      outcome: await ctx.services.leases.cancel(sent, callerOf(ctx.access)),
    })),
  ),

  /** Holders of leases and of environments receive notices of revocations here. */
  session: clientProcedure.input(leaseSessionInputSchema).subscription(async function* ({
    ctx,
    signal,
  }) {
    yield* ctx.services.leases.revocations(callerOf(ctx.access), signal ?? ctx.signal);
  }),

  declare: clientProcedure.input(declareInputSchema).mutation(async ({ ctx, input }) => {
    await ctx.use?.countItems(input.declarations.length);
    for (const { namespace } of input.declarations) assertMayHold(ctx.access, namespace);
    const { declarations } = input;
    const ownMax = ctx.use?.limits.declarations;
    return ctx.services.leases.declare({ declarations, ownMax }, callerOf(ctx.access));
  }),
};

/** What people look at. */
const looking = {
  declared: viewerProcedure
    .input(leaseDeclaredInputSchema)
    .query(({ ctx, input }) => ctx.services.leases.declared(input, callerOf(ctx.access))),

  list: viewerProcedure
    .input(leaseListInputSchema)
    .query(({ ctx, input }) =>
      listAt(ctx, input, (wanted) => ctx.services.leases.list(wanted, callerOf(ctx.access))),
    ),

  get: viewerProcedure
    .input(leaseNameSchema)
    .query(({ ctx, input }) =>
      at(ctx, input, (name) => ctx.services.leases.get(name, callerOf(ctx.access))),
    ),

  tree: viewerProcedure
    .input(leaseTreeInputSchema)
    .query(({ ctx, input }) =>
      treeAt(ctx, input, (wanted) => ctx.services.leases.tree(wanted, callerOf(ctx.access))),
    ),

  waiters: viewerProcedure
    .input(leasePageInputSchema)
    .query(({ ctx, input }) =>
      at(ctx, input, (page) => ctx.services.leases.waiters(page, callerOf(ctx.access))),
    ),

  contention: viewerProcedure
    .input(leaseContentionInputSchema)
    .query(({ ctx, input }) =>
      listAt(ctx, input, (wanted) => ctx.services.leases.contention(wanted, callerOf(ctx.access))),
    ),

  history: viewerProcedure
    .input(leasePageInputSchema)
    .query(({ ctx, input }) =>
      at(ctx, input, (page) => ctx.services.leases.history(page, callerOf(ctx.access))),
    ),
};

/** What operators do. */
const operating = {
  blockRenewal: operatorProcedure.input(leaseRenewableInputSchema).mutation(({ ctx, input }) =>
    at(ctx, input, async (act) => {
      const answer = await ctx.services.leases.blockRenewal(act, callerOf(ctx.access));
      return audited(ctx, { action: 'leases.blockRenewal', input: act }, answer);
    }),
  ),

  allowRenewal: operatorProcedure.input(leaseRenewableInputSchema).mutation(({ ctx, input }) =>
    at(ctx, input, async (act) => {
      const answer = await ctx.services.leases.allowRenewal(act, callerOf(ctx.access));
      return audited(ctx, { action: 'leases.allowRenewal', input: act }, answer);
    }),
  ),

  revoke: operatorProcedure.input(leaseRevokeInputSchema).mutation(({ ctx, input }) =>
    at(ctx, input, async (act) => {
      const answer = await ctx.services.leases.revoke(act, callerOf(ctx.access));
      return audited(ctx, { action: 'leases.revoke', input: act }, answer);
    }),
  ),
};

async function release(
  ctx: CalledContext,
  item: z.output<typeof releaseItemSchema>,
): Promise<ReleaseOutcome> {
  const outcome = await ctx.services.leases.release(item, callerOf(ctx.access));
  if (outcome === 'released') ctx.use?.noteHeld(-1);
  return outcome;
}

/** The leases face on the wire. The lease service decides, also what a caller may read. */
export const leasesRouter = router({ ...holding, ...looking, ...operating });
