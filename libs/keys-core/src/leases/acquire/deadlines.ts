import { deadlinesFrom, type Ladder } from '../../kernel/lease/ladder.ts';
import { LeaseError } from '../../kernel/errors/index.ts';
import { LIMITS } from '../../kernel/limits.ts';
import type { LeaseDeadlines } from '../lease-types.ts';

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
export function assertTtl(ttlMs: number | undefined): asserts ttlMs is number {
  const isInRange =
    Number.isInteger(ttlMs) &&
    ttlMs !== undefined &&
    ttlMs >= LIMITS.ttlMsMin &&
    ttlMs <= LIMITS.ttlMsMax;
  if (!isInRange) throw new LeaseError('lease.ttl_out_of_range', undefined, { details: { ttlMs } });
}
