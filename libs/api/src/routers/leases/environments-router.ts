import { assertMayHold, callerOf } from '../../access/access.ts';
import {
  environmentListInputSchema,
  environmentNameSchema,
  environmentPageInputSchema,
  tryAcquireInputSchema,
} from '../../contract/environments.ts';
import {
  cancelInputSchema,
  leaseHeartbeatInputSchema,
  leaseRevokeInputSchema,
  releaseInputSchema,
} from '../../contract/leases.ts';
import { at } from '../../forwarding/elsewhere.ts';
import { listAt } from '../../forwarding/lists.ts';
import { clientProcedure, operatorProcedure, router, viewerProcedure } from '../../trpc.ts';
import { audited } from '../access/audit-lease.ts';
import { acquiring, renewing, renewMany } from './lease-calls.ts';

/** The environments face on the wire: leases that nobody waits for. */
export const environmentsRouter = router({
  tryAcquire: clientProcedure.input(tryAcquireInputSchema).mutation(({ ctx, input }) => {
    const { services, access, life } = ctx;
    assertMayHold(access, input.environment.namespace);
    return at(ctx, input, ({ environment, durationMs, witness, ...rest }) =>
      acquiring(ctx, witness, async () => {
        await ctx.use?.mayHold(1);
        const answer = await services.environments.acquire(
          { ...rest, ...environment, ttlMs: durationMs, waitMs: 0 },
          callerOf(access),
          life,
        );
        if (answer.outcome !== 'granted') return answer;
        ctx.use?.noteHeld(1);
        return { ...answer, action: input.action };
      }),
    );
  }),

  heartbeat: clientProcedure
    .input(leaseHeartbeatInputSchema)
    .mutation(({ ctx, input }) =>
      at(ctx, input, ({ witness, ...sent }) =>
        renewing(ctx, witness, () => renewMany(ctx, ctx.services.environments, sent)),
      ),
    ),

  release: clientProcedure.input(releaseInputSchema).mutation(({ ctx, input }) =>
    at(ctx, input, async (sent) => {
      const outcome = await ctx.services.environments.release(sent, callerOf(ctx.access));
      if (outcome === 'released') ctx.use?.noteHeld(-1);
      return { outcome };
    }),
  ),

  /** For a caller whose answer was lost: undoes its request, whatever the outcome was. */
  cancel: clientProcedure.input(cancelInputSchema).mutation(({ ctx, input }) =>
    at(ctx, input, async (sent) => ({
      outcome: await ctx.services.environments.cancel(sent, callerOf(ctx.access)),
    })),
  ),

  list: viewerProcedure
    .input(environmentListInputSchema)
    .query(({ ctx, input }) =>
      listAt(ctx, input, (wanted) => ctx.services.environments.list(wanted, callerOf(ctx.access))),
    ),

  get: viewerProcedure
    .input(environmentNameSchema)
    .query(({ ctx, input }) =>
      at(ctx, input, (name) => ctx.services.environments.get(name, callerOf(ctx.access))),
    ),

  history: viewerProcedure
    .input(environmentPageInputSchema)
    .query(({ ctx, input }) =>
      at(ctx, input, (page) => ctx.services.environments.history(page, callerOf(ctx.access))),
    ),

  revoke: operatorProcedure.input(leaseRevokeInputSchema).mutation(({ ctx, input }) =>
    at(ctx, input, async (act) => {
      const answer = await ctx.services.environments.revoke(act, callerOf(ctx.access));
      return audited(ctx, { action: 'environments.revoke', input: act }, answer);
    }),
  ),
});
