import { sayEnd } from '@leasehold/keys-core';
import type { KeyView } from '@leasehold/keys-core/keys';
import type { LeaseView } from '@leasehold/keys-core/leases';

/** What can be granted, as the API calls it. */
export type GrantFace = 'key' | 'lease' | 'environment';

/** The procedures of each face. */
export const GROUP_OF = {
  key: 'keys',
  lease: 'leases',
  environment: 'environments',
} as const satisfies Record<GrantFace, string>;

/** What the views of a key, a lease and an environment have in common; a key also has a drone and a backend. */
export type GrantView = Pick<
  KeyView,
  | (
      | 'name'
      | 'namespace'
      | 'phase'
      | 'leaseId'
      | 'fencingToken'
      | 'holder'
      | 'renewable'
      | 'ladder'
    )
  | ('grantedAt' | 'renewedAt' | 'expiresAt' | 'stopsBy' | 'endReason' | 'releasedAt' | 'asOf')
> &
  Partial<
    Pick<
      KeyView,
      'datacenter' | 'droneId' | 'backendId' | 'backendStatus' | 'backendEnd' | 'waiters'
    >
  > &
  /** What an environment is used for, and how one of several holders of a lease holds it. */
  Partial<Pick<LeaseView, 'action' | 'comment' | 'mode'>>;

/** Whether there is a grant that an operator can still act on. */
export function isInForce(grant: Pick<GrantView, 'endReason' | 'releasedAt' | 'phase'>): boolean {
  return grant.endReason === null && grant.releasedAt === null && grant.phase !== 'expired';
}

/** Whether others may hold the lease beside this grant. */
export function isOneOfSeveral({ mode }: Pick<GrantView, 'mode'>): boolean {
  return mode !== undefined && mode !== null;
}

/**
 * The token that the holder was given. A revocation by force raises the token of the row by one, so that
 * what the last holder sends is refused.
 */
export function holdersToken({
  fencingToken,
  endReason,
}: Pick<GrantView, 'fencingToken' | 'endReason'>): string {
  return endReason === 'revoked' ? String(BigInt(fencingToken) - 1n) : fencingToken;
}

const END_TEXTS: Record<NonNullable<GrantView['endReason']>, string> = {
  released: 'its holder released it',
  expired: 'it expired without a renewal',
  revoked: 'it was revoked by force',
  removed: 'its record was removed',
};

/** Why nobody holds it any more; of a key how its backend ended, where that freed it. */
export function whyEnded({
  endReason,
  backendEnd,
}: Pick<GrantView, 'endReason' | 'backendEnd'>): string | null {
  const isFreedByBackend = endReason === 'released' && (backendEnd?.reason ?? null) !== null;
  if (isFreedByBackend && backendEnd != null) return sayEnd(backendEnd);
  return endReason === null ? null : END_TEXTS[endReason];
}

/** Why a grant cannot be revoked, or its renewal changed; undefined when it can. */
export function whyNotActable(
  face: GrantFace,
  grant: Pick<GrantView, 'endReason' | 'releasedAt' | 'phase'>,
): string | undefined {
  if (isInForce(grant)) return undefined;
  return grant.phase === 'expiring'
    ? 'It was ended by force, and is held back until its backend is known to be gone.'
    : `Nobody holds this ${face}.`;
}

/** The singular and the plural of each face. */
export const FACE_WORDS: Record<GrantFace, readonly [one: string, many: string]> = {
  key: ['key', 'keys'],
  lease: ['lease', 'leases'],
  environment: ['environment', 'environments'],
};
