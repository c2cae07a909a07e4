import type { Ladder } from './ladder.ts';
import type { EndReason, LeaseRow } from './lease.ts';
import type { Resource } from './resource.ts';

/** What a grant asks for. */
export interface GrantRequest extends Resource {
  readonly leaseId: string;
  readonly holder: string;
  readonly principal: string;
  readonly tag: string;
  readonly comment: string | null;
  readonly metadata: unknown;
  readonly ladder: Ladder;
  /** Who is written into the event: a person, a token, a drone. */
  readonly actor: string;
}

/** A new grant. `remainingMs` is `expiresAt - asOf`, both read by the statement that granted. */
export interface Grant extends Resource {
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly ladder: Ladder;
  readonly grantedAt: number;
  readonly expiresAt: number;
  readonly asOf: number;
  readonly remainingMs: number;
  readonly previous: {
    readonly leaseId: string;
    readonly fencingToken: string;
    readonly end: EndReason;
  } | null;
}

export type GrantOutcome =
  | { readonly outcome: 'granted'; readonly grant: Grant }
  | { readonly outcome: 'held'; readonly by: LeaseRow };

/** Names one grant: both are needed for every act on it. */
export interface GrantRef {
  readonly leaseId: string;
  readonly fencingToken: string;
}

export const REFUSAL_REASONS = [
  'not_found',
  'superseded',
  'expired',
  'renewal_blocked',
  'revoked',
  'released',
] as const;
export type RefusalReason = (typeof REFUSAL_REASONS)[number];

export type RenewOutcome =
  | {
      readonly leaseId: string;
      readonly outcome: 'renewed';
      readonly remainingMs: number;
      readonly ladder: Ladder;
    }
  | { readonly leaseId: string; readonly outcome: 'refused'; readonly reason: RefusalReason };

export const RELEASE_OUTCOMES = [
  'released',
  'already_released',
  'expired',
  'superseded',
  'revoked',
  'not_found',
] as const;
export type ReleaseOutcome = (typeof RELEASE_OUTCOMES)[number];

export type RevokeOutcome = 'revoking' | 'revoked' | 'gone';
