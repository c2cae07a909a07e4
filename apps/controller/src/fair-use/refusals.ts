import { LeaseError } from '@leasehold/keys-core';

/** How soon a caller may try again when nothing says more exactly when. */
const RETRY_AFTER_MS = 1_000;
/** The same for a controller that is asked for too many grants. */
const OVERLOAD_RETRY_AFTER_MS = 100;

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

/** The refusal of a caller whose address has too many others that are looked up. */
export function tooManyLookUps(): LeaseError {
  return new LeaseError(
    'request.rate_limited',
    'Too many callers of this address have just come, and are looked up first.',
    { details: { limit: 'lookUps', retryAfterMs: RETRY_AFTER_MS } },
  );
}

/** The refusal of a grant because too many wait for the database. */
export function overloaded(): LeaseError {
  return new LeaseError('controller.overloaded', undefined, {
    details: { retryAfterMs: OVERLOAD_RETRY_AFTER_MS },
  });
}

/** A refusal that time alone does not cure. */
export function quotaExceeded(limit: string, max: number, used: number): LeaseError {
  return new LeaseError(
    'quota.exceeded',
    `The quota ${limit} of this token is ${String(max)}, and this needs ${String(used)}.`,
    { details: { limit, max, used } },
  );
}
