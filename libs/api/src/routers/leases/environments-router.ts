import { assertMayHold } from '../../access/access.ts';
import { bytesOfGrant, writing } from '../../access/event-bytes.ts';
import {
  environmentCountInputSchema,
  environmentAtInputSchema,
  environmentListInputSchema,
  environmentNameSchema,
  environmentPageInputSchema,
  tryAcquireInputSchema,
} from '../../contract/environments.ts';
import { at, placed } from '../../forwarding/elsewhere.ts';
import { counted } from '../../forwarding/counts.ts';
import { listed } from '../../forwarding/lists.ts';
import { clientProcedure, router, viewerProcedure } from '../../trpc.ts';
import { acquiring, heldCalls } from './lease-calls.ts';

/** The environments face on the wire: leases that nobody waits for. */
export const environmentsRouter = router({
  tryAcquire: clientProcedure.input(tryAcquireInputSchema).mutation(({ ctx, input }) => {
    const { services, access, caller, life } = ctx;
    assertMayHold(access, input.environment.namespace);
    return at(ctx, input, ({ environment, durationMs, witness, ...rest }) =>
      acquiring(ctx, witness, async () => {
        await ctx.use?.mayHold(1);
        const wanted = { ...rest, ...environment, ttlMs: durationMs, waitMs: 0 };
        const answer = await writing(
          ctx.use,
          bytesOfGrant(wanted),
          () => services.environments.acquire(wanted, caller, life),
          ({ outcome }) => outcome === 'granted',
        );
        if (answer.outcome !== 'granted') return answer;
        ctx.use?.noteHeld(1);
        return { ...answer, action: input.action };
      }),
    );
  }),

  ...heldCalls('environments'),

  list: viewerProcedure
    .input(environmentListInputSchema)
    .query(listed(({ services, caller }, wanted) => services.environments.list(wanted, caller))),

  count: viewerProcedure
    .input(environmentCountInputSchema)
    .query(counted(({ services, caller }, wanted) => services.environments.count(wanted, caller))),

  get: viewerProcedure
    .input(environmentNameSchema)
    .query(placed(({ services, caller }, name) => services.environments.get(name, caller))),

  history: viewerProcedure
    .input(environmentPageInputSchema)
    .query(placed(({ services, caller }, page) => services.environments.history(page, caller))),

  /** Who held it at a moment. */
  at: viewerProcedure
    .input(environmentAtInputSchema)
    .query(placed(({ services, caller }, asked) => services.environments.at(asked, caller))),
});
