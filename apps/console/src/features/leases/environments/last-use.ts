import type { LeaseItem } from '../lease-item.ts';

/** Until when a grant that is over lasted; null for one that was ended by force: its events tell. */
export function endedAt(
  grant: Pick<LeaseItem, 'endReason' | 'releasedAt' | 'expiresAt'>,
): string | null {
  if (grant.releasedAt !== null) return grant.releasedAt;
  return grant.endReason === 'expired' ? grant.expiresAt : null;
}
