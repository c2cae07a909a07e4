/** What the audit keeps of acts on grants, and of moves of keys. */
import {
  keyNameOf,
  namespaceText,
  type Acted,
  type Actor,
  type AuditAction,
  type ReservationKey,
} from '@leasehold/keys-core';
import type { AuditEntry } from '@leasehold/keys-core/access';
import { placed, type CalledContext } from '../forwarding/elsewhere.ts';

interface Act {
  readonly leaseId: string;
  readonly reason?: string | undefined;
  readonly datacenter?: string | undefined;
}

/**
 * The resolver of an act on a grant, which records it unless it changed nothing. The event of the
 * act, with actor and reason, was written with the change; this adds the source, and what was
 * granted, as the change itself found it.
 */
export function audited<Input extends Act, Answer extends Acted>(
  action: AuditAction,
  run: (ctx: CalledContext, act: Omit<Input, 'datacenter'>) => Promise<Answer>,
): (call: {
  readonly ctx: CalledContext;
  readonly input: Input;
}) => Promise<Omit<Answer, 'resource'>> {
  return placed(async (ctx, act) => {
    const { resource, ...rest } = await run(ctx, act);
    const { leaseId, reason, ...detail }: Omit<Act, 'datacenter'> = act;
    if (resource !== null) {
      const { face, namespace, name } = resource;
      await ctx.services.audit.write({
        ...ctx.actor,
        action,
        resource: `lease:${leaseId}`,
        reason,
        detail: { ...detail, face, namespace, name },
      });
    }
    return rest;
  });
}

/** Of a move, in the datacenter that was asked and in the one that the key left. */
export function moveEntry(
  actor: Actor,
  input: { readonly key: ReservationKey; readonly toDatacenter: string; readonly reason: string },
  reservationId: string,
): AuditEntry {
  return {
    ...actor,
    action: 'reservations.move',
    resource: resourceOf(input.key),
    reason: input.reason,
    detail: { toDatacenter: input.toDatacenter, reservationId },
  };
}

/** Of a move that was cancelled. */
export function cancelEntry(
  actor: Actor,
  { key, reservationId }: { readonly key: ReservationKey; readonly reservationId: string },
): AuditEntry {
  return {
    ...actor,
    action: 'reservations.cancelMove',
    resource: resourceOf(key),
    reason: null,
    detail: { reservationId },
  };
}

function resourceOf(key: ReservationKey): string {
  const named = keyNameOf(key);
  return named === undefined
    ? `reservation:${JSON.stringify(key)}`
    : `key:${namespaceText(named.namespace)}/${named.name}`;
}
