import type { z } from 'zod';
import { assertMayHold, callerOf, mayRead, type Access } from '../access/access.ts';
import type { ApiContext, ApiServices } from '../context.ts';
import {
  acquireInputSchema,
  acquireItemSchema,
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
  releaseManyInputSchema,
} from '../contract/leases.ts';
import { clientProcedure, operatorProcedure, router, viewerProcedure } from '../trpc.ts';
import { audited } from './audit-lease.ts';
import { NOTHING, assertHere, isElsewhere, renewMany } from './lease-calls.ts';
import { oneByOne } from './one-by-one.ts';

type Ctx = ApiContext & { readonly access: Access };

/** What holders call: acquire, renew, release, give up, and hear of revocations. */
const holding = {
  acquire: clientProcedure.input(acquireInputSchema).mutation(async ({ ctx, input }) => {
    const { waitMs, localTimeMs, ...item } = input;
    const unwatch = waitMs > 0 ? ctx.life.watch() : undefined;
    try {
      return await acquire(ctx, { ...item, waitMs, localTimeMs });
    } finally {
      unwatch?.();
    }
  }),

  acquireMany: clientProcedure.input(acquireManyInputSchema).mutation(async ({ ctx, input }) => ({
    results: await oneByOne(
      {
        services: ctx.services,
        path: 'leases.acquireMany',
        items: input.items,
        schema: acquireItemSchema,
      },
      (item) => acquire(ctx, { ...item, waitMs: 0, localTimeMs: input.localTimeMs }),
    ),
  })),

  heartbeat: clientProcedure
    .input(leaseHeartbeatInputSchema)
    .mutation(({ ctx, input }) => renewMany(ctx, ctx.services.leases, input)),

  release: clientProcedure.input(releaseInputSchema).mutation(async ({ ctx, input }) => ({
    outcome: await ctx.services.leases.release(input, callerOf(ctx.access)),
  })),

  releaseMany: clientProcedure.input(releaseManyInputSchema).mutation(async ({ ctx, input }) => ({
    results: await oneByOne(
      {
        services: ctx.services,
        path: 'leases.releaseMany',
        items: input.items,
        schema: releaseInputSchema,
      },
      async (item) => ({
        outcome: await ctx.services.leases.release(item, callerOf(ctx.access)),
      }),
    ),
  })),

  cancel: clientProcedure.input(cancelInputSchema).mutation(async ({ ctx, input }) => ({
    outcome: await ctx.services.leases.cancel(input, callerOf(ctx.access)),
  })),

  /** Of leases and of environments: whoever holds either hears of a revocation here. */
  session: clientProcedure.input(leaseSessionInputSchema).subscription(async function* ({
    ctx,
    signal,
  }) {
    yield* ctx.services.leases.revocations(callerOf(ctx.access), signal ?? ctx.signal);
  }),

  declare: clientProcedure.input(declareInputSchema).mutation(({ ctx, input }) => {
    for (const { namespace } of input.declarations) assertMayHold(ctx.access, namespace);
    return ctx.services.leases.declare(input, callerOf(ctx.access));
  }),
};

function acquire(
  ctx: Ctx,
  input: z.output<typeof acquireItemSchema> & { waitMs: number; localTimeMs: number },
): ReturnType<ApiServices['leases']['acquire']> {
  const { datacenter, key, ...rest } = input;
  assertMayHold(ctx.access, input.namespace);
  assertHere(ctx.services, datacenter);
  return ctx.services.leases.acquire({ ...rest, name: key }, callerOf(ctx.access), ctx.life);
}

/** What people look at. */
const looking = {
  declared: viewerProcedure
    .input(leaseDeclaredInputSchema)
    .query(({ ctx, input }) => ctx.services.leases.declared(input, callerOf(ctx.access))),

  list: viewerProcedure.input(leaseListInputSchema).query(async ({ ctx, input }) => {
    const { datacenter, ...rest } = input;
    const page = await ctx.services.leases.list(rest, callerOf(ctx.access));
    return {
      ...page,
      ...(isElsewhere(ctx.services, datacenter) ? NOTHING : {}),
      unreachable: [],
    };
  }),

  get: viewerProcedure.input(leaseNameSchema).query(async ({ ctx, input }) => {
    if (!mayRead(ctx.access, input.namespace)) return null;
    return ctx.services.leases.get(input, callerOf(ctx.access));
  }),

  tree: viewerProcedure.input(leaseTreeInputSchema).query(async ({ ctx, input }) => {
    const { datacenter, ...rest } = input;
    const tree = await ctx.services.leases.tree(rest, callerOf(ctx.access));
    return {
      ...tree,
      ...(isElsewhere(ctx.services, datacenter) ? { items: [] } : {}),
      unreachable: [],
    };
  }),

  waiters: viewerProcedure.input(leasePageInputSchema).query(async ({ ctx, input }) => {
    if (!mayRead(ctx.access, input.namespace)) return NOTHING;
    return ctx.services.leases.waiters(input, callerOf(ctx.access));
  }),

  contention: viewerProcedure.input(leaseContentionInputSchema).query(async ({ ctx, input }) => {
    const { datacenter, ...rest } = input;
    const page = await ctx.services.leases.contention(rest, callerOf(ctx.access));
    return {
      ...page,
      ...(isElsewhere(ctx.services, datacenter) ? NOTHING : {}),
      unreachable: [],
    };
  }),

  history: viewerProcedure.input(leasePageInputSchema).query(async ({ ctx, input }) => {
    if (!mayRead(ctx.access, input.namespace)) return NOTHING;
    return ctx.services.leases.history(input, callerOf(ctx.access));
  }),
};

/** What operators do. */
const operating = {
  blockRenewal: operatorProcedure
    .input(leaseRenewableInputSchema)
    .mutation(async ({ ctx, input }) => {
      const answer = await ctx.services.leases.blockRenewal(input, callerOf(ctx.access));
      return audited(ctx, { action: 'leases.blockRenewal', input }, answer);
    }),

  allowRenewal: operatorProcedure
    .input(leaseRenewableInputSchema)
    .mutation(async ({ ctx, input }) => {
      const answer = await ctx.services.leases.allowRenewal(input, callerOf(ctx.access));
      return audited(ctx, { action: 'leases.allowRenewal', input }, answer);
    }),

  revoke: operatorProcedure.input(leaseRevokeInputSchema).mutation(async ({ ctx, input }) => {
    const answer = await ctx.services.leases.revoke(input, callerOf(ctx.access));
    return audited(ctx, { action: 'leases.revoke', input }, answer);
  }),
};

/** The leases face on the wire. Decisions are the lease service's; access is judged here. */
export const leasesRouter = router({ ...holding, ...looking, ...operating });
