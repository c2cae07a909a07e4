import type { Ladder } from './ladder.ts';
import type { Resource } from '../resource/resource.ts';

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
}
