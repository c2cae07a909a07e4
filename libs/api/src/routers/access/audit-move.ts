import { keyNameOf, namespaceText, type ReservationKey } from '@leasehold/keys-core';
import type { AuditEntry } from '@leasehold/keys-core/access';
import { actorOf } from '../../context.ts';

/** What the audit keeps of a move: at the datacenter that was asked, and at the one that was left. */
export function moveEntry(
  by: Parameters<typeof actorOf>[0],
  input: { readonly key: ReservationKey; readonly toDatacenter: string; readonly reason: string },
  reservationId: string,
): AuditEntry {
  const named = keyNameOf(input.key);
  return {
    ...actorOf(by),
    action: 'reservations.move',
    resource:
      named === undefined
        ? `reservation:${JSON.stringify(input.key)}`
        : `key:${namespaceText(named.namespace)}/${named.name}`,
    reason: input.reason,
    detail: { toDatacenter: input.toDatacenter, reservationId },
  };
}
