import type { Clock } from '@leasehold/keys-core';

const WINDOW_MS = 1_000;
/** Above what one client gets through over HTTP; hot paths speak WebSocket. */
const REQUESTS_PER_WINDOW_MAX = 5_000;

/**
 * Secrets never seen before that one address may try: each costs a statement. So does a WebSocket,
 * which brings its secret once it is open.
 */
const TRIES_PER_WINDOW_MAX = 1_000;

/** Sign-ins that one address may try: each costs a core for a while. */
const SIGN_INS_PER_WINDOW_MAX = 10;

/** Counts requests of each caller, and forgets all of them every second. */
export interface RateLimit {
  /** Whether this caller may ask once more now. */
  mayAsk(caller: string): boolean;
  /** Whether this address may try one more secret, or open one more WebSocket, now. */
  mayTry(address: string): boolean;
  /** Whether this address may try one more password or invitation now. */
  maySignIn(address: string): boolean;
}

/** Bounds how often one caller is served over HTTP, so that one that runs wild starves nobody. */
export function createRateLimit(
  clock: Pick<Clock, 'nowMs'>,
  requestsMax = REQUESTS_PER_WINDOW_MAX,
  triesMax = TRIES_PER_WINDOW_MAX,
): RateLimit {
  return {
    mayAsk: createCounter(clock, requestsMax),
    mayTry: createCounter(clock, triesMax),
    maySignIn: createCounter(clock, SIGN_INS_PER_WINDOW_MAX),
  };
}

function createCounter(clock: Pick<Clock, 'nowMs'>, countMax: number): (caller: string) => boolean {
  const counts = new Map<string, number>();
  let windowEndMs = -Infinity;
  return (caller) => {
    const nowMs = clock.nowMs();
    if (nowMs >= windowEndMs) {
      counts.clear();
      windowEndMs = nowMs + WINDOW_MS;
    }
    const count = (counts.get(caller) ?? 0) + 1;
    counts.set(caller, count);
    return count <= countMax;
  };
}
