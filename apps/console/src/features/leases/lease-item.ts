import type { Outputs } from '~/lib/api/api.ts';

/** A lease or an environment as it comes over the wire. */
export type LeaseItem = Outputs['leases']['list']['items'][number];

/** Whether the lease is held; if not, its row shows the last holder. */
export function isTaken({ phase }: Pick<LeaseItem, 'phase'>): boolean {
  return phase === 'held' || phase === 'expiring';
}

/** When a grant that is over ended; null if it was ended by force: only its events show that. */
export function endedAt({ endReason, releasedAt, expiresAt }: LeaseItem): string | null {
  return releasedAt ?? (endReason === 'expired' ? expiresAt : null);
}
