/** The audit, people and API tokens, and the caller itself. */
import type { SessionView } from '../access.ts';
import { bounded } from '../bounded-input.ts';
import { asOf } from '../context.ts';
import {
  auditCountInputSchema,
  auditListInputSchema,
  personActInputSchema,
  personInviteInputSchema,
  personSetRoleInputSchema,
  tokenCreateInputSchema,
  tokenGetInputSchema,
  tokenRevokeInputSchema,
} from '../contract/access.ts';
import { searchCountInputSchema, searchInputSchema } from '../contract/common.ts';
import { adminProcedure, fleetOperatorProcedure, router, viewerProcedure } from '../trpc.ts';

/** What operators did outside of leases, in every namespace. */
export const auditRouter = router({
  list: fleetOperatorProcedure
    .input(bounded(auditListInputSchema))
    .query(({ ctx, input }) => asOf(ctx.services, () => ctx.services.audit.list(input))),

  count: fleetOperatorProcedure
    .input(bounded(auditCountInputSchema))
    .query(({ ctx, input }) => ctx.services.audit.count(input)),
});

/** Who may sign in to the console, and as what. */
export const peopleRouter = router({
  list: adminProcedure
    .input(bounded(searchInputSchema))
    .query(({ ctx, input }) => asOf(ctx.services, () => ctx.services.people.list(input))),

  count: adminProcedure
    .input(bounded(searchCountInputSchema))
    .query(({ ctx, input }) => ctx.services.people.count(input)),

  invite: adminProcedure
    .input(bounded(personInviteInputSchema))
    .mutation(({ ctx, input }) => ctx.services.people.invite(input, ctx.actor)),

  setRole: adminProcedure
    .input(bounded(personSetRoleInputSchema))
    .mutation(({ ctx, input }) => ctx.services.people.setRole(input, ctx.actor)),

  disable: adminProcedure
    .input(bounded(personActInputSchema))
    .mutation(({ ctx, input }) => ctx.services.people.disable(input, ctx.actor)),

  enable: adminProcedure
    .input(bounded(personActInputSchema))
    .mutation(({ ctx, input }) => ctx.services.people.enable(input, ctx.actor)),

  resetPassword: adminProcedure
    .input(bounded(personActInputSchema))
    .mutation(({ ctx, input }) => ctx.services.people.resetPassword(input, ctx.actor)),

  signOutEverywhere: adminProcedure
    .input(bounded(personActInputSchema))
    .mutation(({ ctx, input }) => ctx.services.people.signOutEverywhere(input, ctx.actor)),
});

/** The caller itself. */
export const sessionRouter = router({
  get: viewerProcedure.query(async ({ ctx }): Promise<SessionView> => {
    const { name: actor, role, namespaces, session } = ctx.access;
    const { datacenter } = ctx.services;
    const asOf = await ctx.services.now();
    const seen = { actor, role, namespaces, datacenter, asOf };
    if (session === undefined) return { ...seen, person: null, csrfToken: null, expiresAt: null };
    const { personId, email, name, signInMethods, csrfToken, expiresAt } = session;
    return { ...seen, person: { personId, email, name, signInMethods }, csrfToken, expiresAt };
  }),
});

/** API tokens. A secret is shown once, in the answer of `create`. */
export const tokensRouter = router({
  create: adminProcedure
    .input(bounded(tokenCreateInputSchema))
    .mutation(({ ctx, input }) => ctx.services.tokens.create(input, ctx.actor)),

  list: adminProcedure
    .input(bounded(searchInputSchema))
    .query(({ ctx, input }) => asOf(ctx.services, () => ctx.services.tokens.list(input))),

  count: adminProcedure
    .input(bounded(searchCountInputSchema))
    .query(({ ctx, input }) => ctx.services.tokens.count(input)),

  /** One token, with its limits and its present use of them. */
  get: adminProcedure
    .input(bounded(tokenGetInputSchema))
    .query(({ ctx, input }) => asOf(ctx.services, () => ctx.services.tokens.get(input.tokenId))),

  revoke: adminProcedure
    .input(bounded(tokenRevokeInputSchema))
    .mutation(({ ctx, input }) => ctx.services.tokens.revoke(input, ctx.actor)),
});
