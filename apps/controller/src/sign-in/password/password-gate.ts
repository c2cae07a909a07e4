import { LeaseError } from '@leasehold/keys-core';

/** Each password check takes a core for a while, and 32 MiB. */
const AT_ONCE_MAX = 2;
const WAITING_MAX = 32;

/**
 * Checks only a few passwords at a time, so that a flood of sign-ins leaves leases their cores.
 * @throws {LeaseError} `request.rate_limited` when too many wait already.
 */
export function createPasswordGate(): <Answer>(work: () => Promise<Answer>) => Promise<Answer> {
  const waiting: (() => void)[] = [];
  let runningCount = 0;
  return async (work) => {
    if (runningCount >= AT_ONCE_MAX) {
      if (waiting.length >= WAITING_MAX) throw new LeaseError('request.rate_limited');
      // A check that finishes hands its place on: the count does not change.
      await new Promise<void>((resolve) => waiting.push(resolve));
    } else {
      runningCount += 1;
    }
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) runningCount -= 1;
      else next();
    }
  };
}
