/** What can happen to a grant. Renewals are not events: they would drown everything else. */
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
] as const;
export type EventKind = (typeof EVENT_KINDS)[number];
