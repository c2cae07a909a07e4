import { bounded } from '../../bounded-input.ts';
import { assertMayHold } from '../../access/access.ts';
import { bytesOfGrant, writing } from '../../access/event-bytes.ts';
import type { ApiServices } from '../../context.ts';
import {
  environmentCountInputSchema,
  environmentAtInputSchema,
  environmentListInputSchema,
  environmentNameSchema,
  environmentPageInputSchema,
  tryAcquireInputSchema,
} from '../../contract/environments.ts';
import { at, isElsewhere, placed } from '../../forwarding/elsewhere.ts';
import { counted } from '../../forwarding/counts.ts';
import { listed } from '../../forwarding/lists.ts';
import { clientProcedure, router, viewerProcedure } from '../../trpc.ts';
import { askedFor, refusing } from '../refusing.ts';
import { acquiring, heldCalls } from './lease-calls.ts';

type Answer = Awaited<ReturnType<ApiServices['environments']['acquire']>>;

/** A grant with what the environment is leased for. */
function named<Action>(action: Action, answer: Answer) {
  return answer.outcome === 'granted' ? { ...answer, action } : answer;
}

/** The environments face on the wire: leases that nobody waits for. */
export const environmentsRouter = router({
  tryAcquire: clientProcedure.input(bounded(tryAcquireInputSchema)).mutation(({ ctx, input }) => {
    const { services, access, caller, life } = ctx;
    const { environment: place, durationMs: ttlMs, witness: told, datacenter, ...rest } = input;
    const wanted = { ...rest, ...place, ttlMs, waitMs: 0 };
    const elsewhere = isElsewhere(ctx, datacenter) ? { datacenter } : {};
    const { action } = input;
    return refusing(
      {
        ctx,
        ...askedFor('environment', { ...place, ...input }),
        idempotencyKey: input.idempotencyKey,
        refuse: (error) =>
          acquiring(ctx, told, async () =>
            named(
              action,
              await services.environments.refuse({ ...wanted, ...elsewhere }, caller, error),
            ),
          ),
      },
      async () => {
        assertMayHold(access, place.namespace);
        return at(ctx, input, () =>
          acquiring(ctx, told, async () => {
            await ctx.use?.mayHold(1);
            const answer = await writing(
              ctx.use,
              bytesOfGrant(wanted),
              () => services.environments.acquire(wanted, caller, life),
              ({ outcome }) => outcome === 'granted',
            );
            if (answer.outcome === 'granted') ctx.use?.noteHeld(1);
            return named(action, answer);
          }),
        );
      },
    );
  }),

  ...heldCalls('environments'),

  list: viewerProcedure
    .input(bounded(environmentListInputSchema))
    .query(listed(({ services, caller }, wanted) => services.environments.list(wanted, caller))),

  count: viewerProcedure
    .input(bounded(environmentCountInputSchema))
    .query(counted(({ services, caller }, wanted) => services.environments.count(wanted, caller))),

  get: viewerProcedure
    .input(bounded(environmentNameSchema))
    .query(placed(({ services, caller }, name) => services.environments.get(name, caller))),

  history: viewerProcedure
    .input(bounded(environmentPageInputSchema))
    .query(placed(({ services, caller }, page) => services.environments.history(page, caller))),

  /** Who held it at a moment. */
  at: viewerProcedure
    .input(bounded(environmentAtInputSchema))
    .query(placed(({ services, caller }, asked) => services.environments.at(asked, caller))),
});
