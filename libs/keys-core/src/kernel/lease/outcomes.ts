import type { Ladder } from './ladder.ts';
import type { EndReason, LeaseRow } from './lease.ts';
import type { Resource } from '../resource/resource.ts';

/** What a grant asks for. */
export interface GrantRequest extends Resource {
  readonly leaseId: string;
  readonly holder: string;
  readonly principal: string;
  readonly tag: string;
  readonly comment: string | null;
  readonly metadata: unknown;
  readonly ladder: Ladder;
  /** Whether the caller will confirm the grant: until its first renewal it has `UNCONFIRMED_LADDER`. */
  readonly confirms?: boolean | undefined;
  /** Who is written into the event: a person, a token, a drone. */
  readonly actor: string;
  /** One attempt, one answer, per principal: written by the grant's own statement. */
  readonly idempotencyKey?: string | undefined;
  /** Recorded with the key: see `IdempotentRequest`. */
  readonly fingerprint?: string | undefined;
  /** Whether it waits in line: its lease id is its ticket's id, and it is granted only in its turn. */
  readonly isQueued?: boolean | undefined;
  /**
   * The reservation that the caller knows as the key's home. It must be active here; a row
   * whose home is another reservation grants nothing. Absent on faces other than keys.
   */
  readonly homeReservation?: string | undefined;
}

/** A new grant; `ladder` is the one that it has for now. `remainingMs` is `expiresAt - asOf`, both read by the statement that granted. */
export interface Grant extends Resource {
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly ladder: Ladder;
  readonly grantedAt: number;
  readonly expiresAt: number;
  readonly asOf: number;
  readonly remainingMs: number;
  /** For how long nobody had held the resource; null when nobody ever had, or the last end is not known. */
  readonly freeMs: number | null;
  readonly previous: {
    readonly leaseId: string;
    readonly fencingToken: string;
    readonly end: EndReason;
  } | null;
}

/** The caller that is first in line. Instants are epoch milliseconds. */
export interface QueueHead {
  readonly waiter: string;
  readonly createdAt: number;
  /** How long its ticket is valid unless it is prolonged, in milliseconds. */
  readonly lapsesInMs: number;
}

export type GrantOutcome =
  | { readonly outcome: 'granted'; readonly grant: Grant }
  | {
      readonly outcome: 'held';
      readonly by: LeaseRow;
      readonly waiterCount: number;
      /** For how long the expiry of `by` is not believed yet, in milliseconds; mostly 0. */
      readonly doubtMs: number;
    }
  /** Nobody holds it, and others wait in line before the caller. */
  | { readonly outcome: 'queued'; readonly head: QueueHead; readonly waiterCount: number }
  /** The idempotency key was used before: nothing was granted now; see its record. */
  | { readonly outcome: 'recorded' };

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

/** A renewal that was refused, for the record. */
export interface RefusedRenewal extends GrantRef {
  readonly principal: string;
  readonly reason: RefusalReason;
  /** By the store's clock. */
  readonly atMs: number;
}

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
