import type { SessionView } from '../../services/session.ts';
import { router, viewerProcedure } from '../../trpc.ts';

/** The caller itself. */
export const sessionRouter = router({
  get: viewerProcedure.query(async ({ ctx }): Promise<SessionView> => {
    const { name, role, namespaces, session } = ctx.access;
    return {
      actor: name,
      role,
      namespaces,
      person:
        session === undefined
          ? null
          : {
              personId: session.personId,
              email: session.email,
              name: session.name,
              signInMethods: session.signInMethods,
            },
      csrfToken: session?.csrfToken ?? null,
      expiresAt: session?.expiresAt ?? null,
      datacenter: ctx.services.datacenter,
      asOf: await ctx.services.now(),
    };
  }),
});
