import { deadlinesFrom, type Ladder } from '../../kernel/ladder.ts';
import { LeaseError } from '../../kernel/errors.ts';
import { LIMITS } from '../../kernel/limits.ts';
import type { LeaseDeadlines } from './lease-types.ts';

/** See {@link deadlinesFrom}; a service has one stop, not two. */
export function leaseDeadlines(
  ladder: Ladder,
  localTimeMs: number,
  remainingMs: number,
): LeaseDeadlines {
  const { renewAtMs, hardTerminateAtMs } = deadlinesFrom(ladder, localTimeMs, remainingMs);
  return { renewAtMs, loseAtMs: hardTerminateAtMs };
}

/** @throws {LeaseError} `lease.ttl_out_of_range`. */
export function assertTtl(ttlMs: number): void {
  if (!Number.isInteger(ttlMs) || ttlMs < LIMITS.ttlMsMin || ttlMs > LIMITS.ttlMsMax) {
    throw new LeaseError('lease.ttl_out_of_range', undefined, { details: { ttlMs } });
  }
}
