/**
 * Says whose secret a secret is. Hot calls need no statement: answers are kept for
 * {@link CACHE_MS}, refusals too, so that a caller with a wrong token costs the database nothing.
 * A revocation made anywhere empties the cache by a hint; without the hint it counts after
 * {@link CACHE_MS} at the latest.
 */
import type { Store } from '../open-store.ts';
import { findToken, markTokensUsed, type TokenAccess } from './api-tokens.ts';
import { hashTokenSecret, isTokenSecret } from './token-secret.ts';

const CACHE_MS = 5_000;
/** Wrong tokens are remembered too, so the cache is bounded. */
const CACHED_TOKENS_MAX = 10_000;
/** A token's last use is written at most this often. */
const LAST_USE_EVERY_MS = 60_000;

/** The topic of the hint that says that some token was revoked. */
export const TOKENS_TOPIC = 'tokens';

export interface TokenAuthority {
  /** The token of this secret, or undefined when it is malformed, unknown, expired or revoked. */
  authenticate(secret: string): Promise<TokenAccess | undefined>;
  /** Writes down last uses that are due; called from the background now and then. */
  flushLastUses(): Promise<void>;
  close(): void;
}

interface CachedToken {
  readonly access: Promise<TokenAccess | undefined>;
  readonly readAtMs: number;
}

export function createTokenAuthority(
  store: Pick<Store, 'prisma' | 'hints' | 'clock'>,
): TokenAuthority {
  const cache = new Map<string, CachedToken>();
  const used = new Set<string>();
  const writtenAtMs = new Map<string, number>();
  const off = store.hints.on(TOKENS_TOPIC, () => {
    cache.clear();
  });

  function look(secretHash: string): Promise<TokenAccess | undefined> {
    const nowMs = store.clock.nowMs();
    const cached = cache.get(secretHash);
    if (cached !== undefined && nowMs - cached.readAtMs < CACHE_MS) return cached.access;
    if (cache.size >= CACHED_TOKENS_MAX) cache.clear();
    const entry = { access: findToken(store.prisma, secretHash), readAtMs: nowMs };
    cache.set(secretHash, entry);
    // A failure is not an answer: the next caller asks again.
    entry.access.catch(() => {
      if (cache.get(secretHash) === entry) cache.delete(secretHash);
    });
    return entry.access;
  }

  return {
    async authenticate(secret) {
      if (!isTokenSecret(secret)) return undefined;
      const access = await look(hashTokenSecret(secret));
      if (access !== undefined) used.add(access.tokenId);
      return access;
    },
    async flushLastUses() {
      const nowMs = store.clock.nowMs();
      const due = [...used].filter(
        (tokenId) => nowMs - (writtenAtMs.get(tokenId) ?? -Infinity) >= LAST_USE_EVERY_MS,
      );
      if (due.length === 0) return;
      await markTokensUsed(store.prisma, due);
      for (const tokenId of due) {
        used.delete(tokenId);
        writtenAtMs.set(tokenId, nowMs);
      }
    },
    close: off,
  };
}
