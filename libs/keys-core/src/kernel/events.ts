import type { Resource } from './resource/resource.ts';

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

/** One fact, written by the statement that made it true. `id` orders all facts of a database. */
export interface LeaseEvent extends Resource {
  readonly id: string;
  readonly at: number;
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly kind: EventKind;
  readonly actor: string;
  readonly reason: string | null;
  readonly detail: Record<string, unknown> | null;
}
