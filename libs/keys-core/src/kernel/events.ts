/**
 * What can happen to a grant. Renewals are not events: they would drown everything else. A refused one is,
 * once for each grant, reason and minute.
 */
export const EVENT_KINDS = [
  'granted',
  'taken_over',
  'released',
  'failed',
  'expired',
  'removed',
  'renewal_blocked',
  'renewal_allowed',
  'revoked',
  'renewal_refused',
  'crash_loop',
] as const;
export type EventKind = (typeof EVENT_KINDS)[number];

/**
 * Kinds that a reader gets only by naming them: those that a client of the first version does not know, and
 * that are not part of a resource's history.
 */
export const ASKED_EVENT_KINDS: readonly EventKind[] = ['renewal_refused', 'crash_loop'];
