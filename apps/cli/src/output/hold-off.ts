import type { HoldOffView } from '@leasehold/api/contract';
import { HOLD_OFF_CAUSES } from '@leasehold/keys-core';
import { durationText } from './duration.ts';

export function holdOffText({ since, remainingMs, until, cause }: HoldOffView): string {
  const begun = since === null ? '' : ` since ${since},`;
  const why = cause === null ? '' : `: ${HOLD_OFF_CAUSES[cause]}`;
  return `New grants are held off${begun} for ${durationText(remainingMs)} more, until ${until}. The database was restored or failed over${why}.`;
}

/** What can go wrong when a hold-off is ended, and until when. */
export function endRiskText({ until }: HoldOffView): string {
  return `The database has lost grants, and their holders may still act on them until ${until}. If you end the hold-off, such a key or lease can be granted again at once: then two holders, or two backends, act at the same time. Only stores that check fencing tokens notice it. End it only if every drone and every service that holds leases was restarted, or is off.`;
}
