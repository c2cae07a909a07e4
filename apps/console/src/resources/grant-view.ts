import type { BackendStatus, EndReason, Ladder, Phase } from '@leasehold/keys-core';

/** What can be granted, as the API calls it. */
export type GrantFace = 'key' | 'lease' | 'environment';

/** The procedures of each face. */
export const GROUP_OF = {
  key: 'keys',
  lease: 'leases',
  environment: 'environments',
} as const satisfies Record<GrantFace, string>;

/** What the views of a key, a lease and an environment have in common. */
export interface GrantView {
  readonly name: string;
  readonly namespace: string;
  readonly phase: Phase;
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly holder: string;
  readonly grantedAt: string;
  readonly renewedAt: string;
  readonly expiresAt: string;
  readonly renewable: boolean;
  readonly ladder: Ladder;
  /** Until when a holder that was ended by force may still act. */
  readonly stopsBy: string | null;
  readonly endReason: EndReason | null;
  readonly releasedAt: string | null;
  readonly asOf: string;
  /** Its datacenter; by default this controller's. */
  readonly datacenter?: string;
  /** Only for a key: its drone and its backend. */
  readonly droneId?: string | null;
  readonly backendId?: string | null;
  readonly backendStatus?: BackendStatus | null;
}

/** Whether there is a grant that an operator can still act on. */
export function isInForce(grant: Pick<GrantView, 'endReason' | 'releasedAt' | 'phase'>): boolean {
  return grant.endReason === null && grant.releasedAt === null && grant.phase !== 'expired';
}

/** Why a grant cannot be revoked, or its renewal changed; undefined when it can. */
export function whyNotActable(
  face: GrantFace,
  grant: Pick<GrantView, 'endReason' | 'releasedAt' | 'phase'>,
): string | undefined {
  if (isInForce(grant)) return undefined;
  return grant.phase === 'expiring'
    ? 'It was ended by force before, and is held back until its backend is known to be gone.'
    : `Nobody holds this ${face}.`;
}

/** The singular and the plural of each face. */
export const FACE_WORDS: Record<GrantFace, readonly [one: string, many: string]> = {
  key: ['key', 'keys'],
  lease: ['lease', 'leases'],
  environment: ['environment', 'environments'],
};
