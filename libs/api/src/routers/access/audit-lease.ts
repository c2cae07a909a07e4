import type { AuditAction, Acted } from '@leasehold/keys-core';
import { actorOf, type ApiServices } from '../../context.ts';

/**
 * Records an act on a grant, unless it changed nothing, and returns its answer for the wire. The
 * event of the act, with actor and reason, was written with the change; this adds the source, and
 * what was granted, as the change itself found it.
 */
export async function audited<Answer extends Acted>(
  ctx: Parameters<typeof actorOf>[0] & { readonly services: ApiServices },
  act: {
    readonly action: AuditAction;
    readonly input: {
      leaseId: string;
      reason?: string | undefined;
      mode?: string;
      abandon?: boolean;
    };
  },
  answer: Answer,
): Promise<Omit<Answer, 'resource'>> {
  const { resource, ...rest } = answer;
  const { leaseId, reason, ...detail } = act.input;
  if (resource !== null) {
    const { face, namespace, name } = resource;
    await ctx.services.audit.write({
      ...actorOf(ctx),
      action: act.action,
      resource: `lease:${leaseId}`,
      reason,
      detail: { ...detail, face, namespace, name },
    });
  }
  return rest;
}
