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
