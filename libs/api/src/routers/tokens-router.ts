import { actorOf } from '../context.ts';
import {
  tokenCreateInputSchema,
  tokenListInputSchema,
  tokenRevokeInputSchema,
} from '../contract/tokens.ts';
import { asOf } from './as-of.ts';
import { adminProcedure, router } from '../trpc.ts';

/** API tokens. A secret is shown once, in the answer of `create`. */
export const tokensRouter = router({
  create: adminProcedure
    .input(tokenCreateInputSchema)
    .mutation(({ ctx, input }) => ctx.services.tokens.create(input, actorOf(ctx))),

  list: adminProcedure
    .input(tokenListInputSchema)
    .query(({ ctx, input }) => asOf(ctx.services, () => ctx.services.tokens.list(input))),

  revoke: adminProcedure
    .input(tokenRevokeInputSchema)
    .mutation(({ ctx, input }) => ctx.services.tokens.revoke(input, actorOf(ctx))),
});
