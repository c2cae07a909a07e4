/**
 * The long-lived connections that were opened with a token: a token is checked when its connection
 * opens, so one that is revoked or expires later must end it. At a hint, and once every
 * {@link CHECK_MS}, one statement says which of the tokens in use are still in force.
 */
import { TOKENS_TOPIC, tokensInForce, type Store } from '@leasehold/keys-core/store';
import type { Logger } from '@leasehold/service-kit';

const CHECK_MS = 1_000;

export interface OpenConnections {
  /** Calls `end` once the token is no longer in force. @returns a function that forgets it. */
  add(tokenId: string, end: () => void): () => void;
  readonly count: number;
  close(): void;
}

export function createOpenConnections(
  store: Pick<Store, 'prisma' | 'hints'>,
  log: Logger,
): OpenConnections {
  const endsOf = new Map<string, Set<() => void>>();
  let count = 0;
  let isChecking = false;
  let isCheckWanted = false;

  async function check(): Promise<void> {
    isCheckWanted = true;
    if (isChecking) return;
    isChecking = true;
    try {
      while (isCheckWanted && endsOf.size > 0) {
        isCheckWanted = false;
        const tokenIds = [...endsOf.keys()];
        const inForce = await tokensInForce(store.prisma, tokenIds);
        for (const tokenId of tokenIds) {
          if (!inForce.has(tokenId)) for (const end of [...(endsOf.get(tokenId) ?? [])]) end();
        }
      }
    } catch (error) {
      log.warn({ err: error }, 'open connections could not be checked; trying again');
    } finally {
      isChecking = false;
    }
  }

  const timer = setInterval(() => void check(), CHECK_MS);
  timer.unref();
  const off = store.hints.on(TOKENS_TOPIC, () => void check());

  return {
    add(tokenId, end) {
      const ends = endsOf.get(tokenId) ?? new Set();
      ends.add(end);
      endsOf.set(tokenId, ends);
      count += 1;
      let isKnown = true;
      return () => {
        if (!isKnown) return;
        isKnown = false;
        count -= 1;
        ends.delete(end);
        if (ends.size === 0 && endsOf.get(tokenId) === ends) endsOf.delete(tokenId);
      };
    },
    get count() {
      return count;
    },
    close() {
      clearInterval(timer);
      off();
    },
  };
}
