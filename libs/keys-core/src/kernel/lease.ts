import type { Ladder } from './ladder.ts';
import type { Resource } from './resource.ts';

/** What a resource is at a moment. Always computed, never stored: time alone can change it. */
export const PHASES = ['free', 'held', 'expiring', 'expired'] as const;
export type Phase = (typeof PHASES)[number];

/** Why a grant has ended. */
export type EndReason = 'released' | 'expired' | 'revoked' | 'removed';

/** The columns of a lease row that its phase depends on. Instants are epoch milliseconds. */
export interface PhaseInput {
  readonly releasedAt: number | null;
  readonly endReason: string | null;
  readonly expiresAt: number;
  readonly renewable: boolean;
  /** Until when a key that was ended by force is held back, because its backend may still run. */
  readonly stopsBy: number | null;
}

/**
 * The phase of a row at a moment of the database's clock. `expiring` is a grant whose renewal is
 * blocked, or a key that was ended by force and whose backend may still run; at the very instant
 * of its expiry a grant is expired.
 */
export function phaseOf(row: PhaseInput, asOf: number): Phase {
  if (row.stopsBy !== null && asOf < row.stopsBy) return 'expiring';
  if (row.endReason === 'expired') return 'expired';
  if (row.releasedAt !== null || row.endReason !== null) return 'free';
  if (asOf >= row.expiresAt) return 'expired';
  return row.renewable ? 'held' : 'expiring';
}

/** A lease row as the store reads it. Instants are epoch milliseconds of the database's clock. */
export interface LeaseRow extends Resource, PhaseInput, Ladder {
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly holder: string;
  readonly principal: string;
  readonly tag: string;
  readonly comment: string | null;
  readonly grantedAt: number;
  readonly renewedAt: number;
  readonly asOf: number;
  /** Of the own row of a pool, which nobody holds: what kind of pool it is. */
  readonly poolKind?: PoolKind | null | undefined;
}

/** What a grant asks for. */
export interface GrantRequest extends Resource {
  /** How a pool is to be held, see {@link askedAs}; undefined for a lease that one holds at a time. */
  readonly mode?: SlotMode | undefined;
  /** Whether its caller wants nobody beside it: a permit does not promise that. */
  readonly alone?: true | undefined;
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
  /** Why an environment is asked for although it may be frozen, and in which role. */
  readonly override?: { readonly role: string; readonly reason: string } | undefined;
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

/** Whether a refusal knows who has it: in a hold-off nobody may have looked, and `since` is the beginning of time. */
export function isHolderKnown({ since }: { readonly since: string }): boolean {
  return Date.parse(since) > 0;
}

/** The caller that is first in line. Instants are epoch milliseconds. */
export interface QueueHead {
  readonly waiter: string;
  readonly createdAt: number;
  /** How long its ticket is valid unless it is prolonged, in milliseconds. */
  readonly lapsesInMs: number;
}

export type GrantOutcome =
  | {
      readonly outcome: 'granted';
      readonly grant: Grant;
      /** Of a pool: there may be room for others beside it. */
      readonly isSlot?: true | undefined;
    }
  | {
      readonly outcome: 'held';
      readonly by: LeaseRow;
      readonly waiterCount: number;
      /** For how long the expiry of `by` is not believed yet, in milliseconds; mostly 0. */
      readonly doubtMs: number;
      /** What else is held of a pool; `by` is the holder whose grant expires first. */
      readonly pool?: PoolUse | undefined;
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

export type RefusalReason =
  'not_found' | 'superseded' | 'expired' | 'renewal_blocked' | 'revoked' | 'released';

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

export type ReleaseOutcome =
  'released' | 'already_released' | 'expired' | 'superseded' | 'revoked' | 'not_found';

/** What became of a holder's change of what its grant says of it. */
export type UpdateOutcome =
  | { readonly outcome: 'updated' }
  | { readonly outcome: 'refused'; readonly reason: Exclude<RefusalReason, 'renewal_blocked'> };

export type RevokeOutcome = 'revoking' | 'revoked' | 'gone';

/**
 * A fencing token: a whole number that grows with every grant of a resource and stays the same
 * when the grant is renewed. It travels as a decimal string, because JSON numbers are exact only up to 2^53.
 */
export function isFencingToken(text: string): boolean {
  return /^(0|[1-9]\d{0,18})$/u.test(text) && BigInt(text) <= 9_223_372_036_854_775_807n;
}

/** Negative, zero or positive as `a` is smaller than, equal to or greater than `b`. */
export function compareFencingTokens(a: string, b: string): number {
  const difference = BigInt(a) - BigInt(b);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

/**
 * A pool: a scope that several callers hold at once. Either it has a number of permits, or it is held
 * by many who share it or by one alone, as a lock of readers and writers is.
 */

/** By permits, or shared and exclusive. */
export type PoolKind = 'permit' | 'shared';

/** How a caller holds its part of a pool. */
export const SLOT_MODES = ['permit', 'shared', 'exclusive'] as const;
export type SlotMode = (typeof SLOT_MODES)[number];

/** How many may hold leases of a namespace. */
export interface Permits {
  /** One key, at once. */
  readonly perKey: number;
  /** All keys together, at once; null without a limit. */
  readonly total: number | null;
}

/** Somebody who holds a part of a pool. Instants are epoch milliseconds. */
export interface PoolHolder {
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly holder: string;
  readonly mode: SlotMode;
  readonly grantedAt: number;
  readonly expiresAt: number;
}

/** What is held of a pool. */
export interface PoolUse {
  readonly kind: PoolKind;
  /** How many hold the scope. */
  readonly used: number;
  /** How many may; null where many share it. */
  readonly permits: number | null;
  /** How many hold any scope of the namespace, and how many may; null without such a limit. */
  readonly total: { readonly used: number; readonly permits: number } | null;
  /** Of the scope, the first of them. */
  readonly holders: readonly PoolHolder[];
}

/** The kind of pool that a request for a slot asks for. */
export function poolKindOf(mode: SlotMode): PoolKind {
  return mode === 'permit' ? 'permit' : 'shared';
}

/** A grant request's fields for the mode that a caller names: alone is what an ordinary grant is. */
export function askedAs(mode: SlotMode | undefined): {
  readonly mode?: SlotMode;
  readonly alone?: true;
} {
  if (mode === undefined) return {};
  return mode === 'exclusive' ? { alone: true } : { mode };
}
