import { actorOf } from '../../context.ts';
import {
  peopleListInputSchema,
  personActInputSchema,
  personInviteInputSchema,
  personSetRoleInputSchema,
} from '../../contract/access/people.ts';
import { asOf } from '../as-of.ts';
import { adminProcedure, router } from '../../trpc.ts';

/** Who may sign in to the console, and as what. */
export const peopleRouter = router({
  list: adminProcedure
    .input(peopleListInputSchema)
    .query(({ ctx, input }) => asOf(ctx.services, () => ctx.services.people.list(input))),

  invite: adminProcedure
    .input(personInviteInputSchema)
    .mutation(({ ctx, input }) => ctx.services.people.invite(input, actorOf(ctx))),

  setRole: adminProcedure
    .input(personSetRoleInputSchema)
    .mutation(({ ctx, input }) => ctx.services.people.setRole(input, actorOf(ctx))),

  disable: adminProcedure
    .input(personActInputSchema)
    .mutation(({ ctx, input }) => ctx.services.people.disable(input, actorOf(ctx))),

  enable: adminProcedure
    .input(personActInputSchema)
    .mutation(({ ctx, input }) => ctx.services.people.enable(input, actorOf(ctx))),

  resetPassword: adminProcedure
    .input(personActInputSchema)
    .mutation(({ ctx, input }) => ctx.services.people.resetPassword(input, actorOf(ctx))),

  signOutEverywhere: adminProcedure
    .input(personActInputSchema)
    .mutation(({ ctx, input }) => ctx.services.people.signOutEverywhere(input, actorOf(ctx))),
});
