import { actorOf } from '../../context.ts';
import {
  tokenCreateInputSchema,
  tokenGetInputSchema,
  tokenListInputSchema,
  tokenRevokeInputSchema,
} from '../../contract/access/tokens.ts';
import { asOf } from '../as-of.ts';
import { adminProcedure, router } from '../../trpc.ts';

/** API tokens. A secret is shown once, in the answer of `create`. */
export const tokensRouter = router({
  create: adminProcedure
    .input(tokenCreateInputSchema)
    .mutation(({ ctx, input }) => ctx.services.tokens.create(input, actorOf(ctx))),

  list: adminProcedure
    .input(tokenListInputSchema)
    .query(({ ctx, input }) => asOf(ctx.services, () => ctx.services.tokens.list(input))),

  /** One token, with its limits and its present use of them. */
  get: adminProcedure
    .input(tokenGetInputSchema)
    .query(({ ctx, input }) => asOf(ctx.services, () => ctx.services.tokens.get(input.tokenId))),

  revoke: adminProcedure
    .input(tokenRevokeInputSchema)
    .mutation(({ ctx, input }) => ctx.services.tokens.revoke(input, actorOf(ctx))),
});
