import { keyNameOf, namespaceText, type ReservationKey } from '@leasehold/keys-core';
import type { AuditEntry } from '@leasehold/keys-core/access';
import { actorOf } from '../../context.ts';

/** What the audit keeps of a move, in the datacenter that was asked and in the one that the key left. */
export function moveEntry(
  by: Parameters<typeof actorOf>[0],
  input: { readonly key: ReservationKey; readonly toDatacenter: string; readonly reason: string },
  reservationId: string,
): AuditEntry {
  return {
    ...actorOf(by),
    action: 'reservations.move',
    resource: resourceOf(input.key),
    reason: input.reason,
    detail: { toDatacenter: input.toDatacenter, reservationId },
  };
}

/** What the audit keeps of a move that was cancelled. */
export function cancelEntry(
  by: Parameters<typeof actorOf>[0],
  { key, reservationId }: { readonly key: ReservationKey; readonly reservationId: string },
): AuditEntry {
  return {
    ...actorOf(by),
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
