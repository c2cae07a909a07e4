import type { Clock } from '@leasehold/keys-core';

const WINDOW_MS = 1_000;
/** Above what one client gets through over HTTP; hot paths speak WebSocket. */
const REQUESTS_PER_WINDOW_MAX = 5_000;

/** Counts requests of each caller, and forgets all of them every second. */
export interface RateLimit {
  /** Whether this caller may ask once more now. */
  mayAsk(caller: string): boolean;
}

/** Bounds how often one caller is served over HTTP, so that one that runs wild starves nobody. */
export function createRateLimit(
  clock: Pick<Clock, 'nowMs'>,
  requestsMax = REQUESTS_PER_WINDOW_MAX,
): RateLimit {
  const counts = new Map<string, number>();
  let windowEndMs = -Infinity;
  return {
    mayAsk(caller) {
      const nowMs = clock.nowMs();
      if (nowMs >= windowEndMs) {
        counts.clear();
        windowEndMs = nowMs + WINDOW_MS;
      }
      const count = (counts.get(caller) ?? 0) + 1;
      counts.set(caller, count);
      return count <= requestsMax;
    },
  };
}
