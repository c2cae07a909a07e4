import type { LeaseItem } from '../lease-item.ts';

/** When a grant that is over ended; null if it was ended by force: only its events show that. */
export function endedAt(
  grant: Pick<LeaseItem, 'endReason' | 'releasedAt' | 'expiresAt'>,
): string | null {
  if (grant.releasedAt !== null) return grant.releasedAt;
  return grant.endReason === 'expired' ? grant.expiresAt : null;
}
