/**
 * All rates, by one library: calls of principals, requests without a good token by
 * address, secrets that were never seen before, and passwords. Windows of a second.
 */
import { sourceOfTries } from '@leasehold/keys-core/access';
import { RateLimiterMemory, type RateLimiterRes } from 'rate-limiter-flexible';
import { rateLimited } from './refusals.ts';

/** Secrets never seen before that one address may try in a second. Many share one statement. */
const NEW_SECRETS_PER_SECOND_MAX = 1_000;
/** Sign-ins that one address may try in a second: each costs a core for a while. */
const SIGN_INS_PER_SECOND_MAX = 10;
const WINDOW_SECONDS = 1;

export interface Rates {
  /** Counts calls of a principal; resolves to when it may call again if that is too many, in ms. */
  overMs(key: string, count: number, max: number): Promise<number | undefined>;
  /** Counts a request that came without a good token. @throws {LeaseError} `request.rate_limited`. */
  anonymous(address: string): Promise<void>;
  /** Counts a secret that was never seen before. @throws {LeaseError} `request.rate_limited`. */
  newSecret(address: string): Promise<void>;
  /** Counts a password or an invitation. @throws {LeaseError} `request.rate_limited`. */
  signIn(address: string): Promise<void>;
}

export function createRates({
  anonymousPerSecondMax,
  newSecretsPerSecondMax = NEW_SECRETS_PER_SECOND_MAX,
  onRefusal,
}: {
  readonly anonymousPerSecondMax: number;
  readonly newSecretsPerSecondMax?: number | undefined;
  /** Called for each refusal of an address, for metrics. */
  readonly onRefusal: (limit: string) => void;
}): Rates {
  const calls = limiterOf(0);
  const over = async (
    limiter: RateLimiterMemory,
    { key, count, max }: { key: string; count: number; max: number },
  ): Promise<number | undefined> => {
    const { consumedPoints, msBeforeNext }: RateLimiterRes = await limiter.penalty(key, count);
    return consumedPoints > max ? Math.max(1, Math.ceil(msBeforeNext)) : undefined;
  };
  const byAddress = (limit: string, max: number): ((address: string) => Promise<void>) => {
    const limiter = limiterOf(max);
    return async (address) => {
      const retryAfterMs = await over(limiter, { key: sourceOfTries({ address }), count: 1, max });
      if (retryAfterMs === undefined) return;
      onRefusal(limit);
      throw rateLimited(limit, max, retryAfterMs);
    };
  };
  return {
    overMs: (key, count, max) => over(calls, { key, count, max }),
    anonymous: byAddress('requestsWithoutToken', anonymousPerSecondMax),
    newSecret: byAddress('newTokens', newSecretsPerSecondMax),
    signIn: byAddress('signIns', SIGN_INS_PER_SECOND_MAX),
  };
}

function limiterOf(points: number): RateLimiterMemory {
  return new RateLimiterMemory({ points, duration: WINDOW_SECONDS });
}
