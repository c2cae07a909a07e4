import { LeaseError } from '@leasehold/keys-core';

/** How soon a caller may try again when nothing says more exactly when. */
const RETRY_AFTER_MS = 1_000;

/** A refusal that time cures. `max` is the limit in its own unit. */
export function rateLimited(limit: string, max: number, retryAfterMs = RETRY_AFTER_MS): LeaseError {
  return new LeaseError(
    'request.rate_limited',
    `Too many requests: the limit ${limit} is ${String(max)}.`,
    {
      details: { limit, max, retryAfterMs },
    },
  );
}

/** A refusal that time alone does not cure. */
export function quotaExceeded(limit: string, max: number, used: number): LeaseError {
  return new LeaseError(
    'quota.exceeded',
    `The quota ${limit} of this token is ${String(max)}, and this needs ${String(used)}.`,
    { details: { limit, max, used } },
  );
}
