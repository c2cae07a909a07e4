import { actorOf, type ApiServices } from '../context.ts';

/** Records an act on a grant. Its event, with actor and reason, was written with the change; this adds from where. */
export async function auditLease(
  ctx: Parameters<typeof actorOf>[0] & { readonly services: ApiServices },
  action: string,
  input: { leaseId: string; reason?: string | undefined; mode?: string; abandon?: boolean },
): Promise<void> {
  const { leaseId, reason, ...detail } = input;
  await ctx.services.audit.write({
    ...actorOf(ctx),
    action,
    resource: `lease:${leaseId}`,
    reason,
    detail,
  });
}
