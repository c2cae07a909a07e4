import { assertMayHold, callerOf, mayRead } from '../access/access.ts';
import {
  environmentListInputSchema,
  environmentNameSchema,
  environmentPageInputSchema,
  tryAcquireInputSchema,
} from '../contract/environments.ts';
import {
  cancelInputSchema,
  leaseHeartbeatInputSchema,
  leaseRevokeInputSchema,
  releaseInputSchema,
} from '../contract/leases.ts';
import { clientProcedure, operatorProcedure, router, viewerProcedure } from '../trpc.ts';
import { audited } from './audit-lease.ts';
import { NOTHING, assertHere, isElsewhere, renewMany } from './lease-calls.ts';

/** The environments face on the wire: keel's leases, which nobody waits for. */
export const environmentsRouter = router({
  tryAcquire: clientProcedure.input(tryAcquireInputSchema).mutation(async ({ ctx, input }) => {
    const { environment, datacenter, durationMs, ...rest } = input;
    const { services, access, life } = ctx;
    assertMayHold(access, environment.namespace);
    assertHere(services, datacenter);
    const ttlMs = durationMs ?? services.environmentLeaseMs;
    const answer = await services.environments.acquire(
      { ...rest, ...environment, ttlMs, waitMs: 0 },
      callerOf(access),
      life,
    );
    return answer.outcome === 'granted' ? { ...answer, action: input.action } : answer;
  }),

  heartbeat: clientProcedure
    .input(leaseHeartbeatInputSchema)
    .mutation(({ ctx, input }) => renewMany(ctx, ctx.services.environments, input)),

  release: clientProcedure.input(releaseInputSchema).mutation(async ({ ctx, input }) => ({
    outcome: await ctx.services.environments.release(input, callerOf(ctx.access)),
  })),

  /** For a caller whose answer was lost: whatever became of its request is undone. */
  cancel: clientProcedure.input(cancelInputSchema).mutation(async ({ ctx, input }) => ({
    outcome: await ctx.services.environments.cancel(input, callerOf(ctx.access)),
  })),

  list: viewerProcedure.input(environmentListInputSchema).query(async ({ ctx, input }) => {
    const { datacenter, ...rest } = input;
    const page = await ctx.services.environments.list(rest, callerOf(ctx.access));
    return {
      ...page,
      ...(isElsewhere(ctx.services, datacenter) ? NOTHING : {}),
      unreachable: [],
    };
  }),

  get: viewerProcedure.input(environmentNameSchema).query(async ({ ctx, input }) => {
    if (!mayRead(ctx.access, input.namespace)) return null;
    return ctx.services.environments.get(input, callerOf(ctx.access));
  }),

  history: viewerProcedure.input(environmentPageInputSchema).query(async ({ ctx, input }) => {
    if (!mayRead(ctx.access, input.namespace)) return NOTHING;
    return ctx.services.environments.history(input, callerOf(ctx.access));
  }),

  revoke: operatorProcedure.input(leaseRevokeInputSchema).mutation(async ({ ctx, input }) => {
    const answer = await ctx.services.environments.revoke(input, callerOf(ctx.access));
    return audited(ctx, { action: 'environments.revoke', input }, answer);
  }),
});
