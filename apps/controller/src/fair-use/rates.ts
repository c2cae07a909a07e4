/**
 * All rates, by one library: calls of principals, requests without a good token by
 * address, secrets that were never seen before, and passwords. Windows of a second.
 */
import { LeaseError } from '@leasehold/keys-core';
import { sourceOfTries } from '@leasehold/keys-core/access';
import { RateLimiterMemory, type RateLimiterRes } from 'rate-limiter-flexible';

/** Secrets never seen before that one address may try in a second. Many share one statement. */
const NEW_SECRETS_PER_SECOND_MAX = 1_000;
/** Sign-ins that one address may try in a second: each costs a core for a while. */
const SIGN_INS_PER_SECOND_MAX = 10;
const WINDOW_SECONDS = 1;

/** One that goes on after this many times its limit is not answered any more: answers cost too. */
const SHUT_TIMES = 2;
/** So many addresses that are not answered are remembered; others are answered with a refusal. */
const SHUT_MAX = 10_000;

/** What somebody who has sent too many calls may expect. */
interface Over {
  /** When it may call again. */
  readonly retryAfterMs: number;
  /** Whether it has sent so many that it is not answered any more. */
  readonly isShut: boolean;
}

export interface Rates {
  /** Counts calls of a principal; resolves to what is to be done if that is too many. */
  over(key: string, count: number, max: number): Promise<Over | undefined>;
  /** Whether an address is not answered any more, in this second: of those with a secret that was never seen, or of all others. */
  isShut(kind: 'anonymous' | 'newSecret', address: string): boolean;
  /** Counts a request that came without a good token. @throws {LeaseError} `request.rate_limited`. */
  anonymous(address: string): Promise<void>;
  /** Counts a secret that was never seen before. @throws {LeaseError} `request.rate_limited`. */
  newSecret(address: string): Promise<void>;
  /** Counts a password or an invitation. @throws {LeaseError} `request.rate_limited`. */
  signIn(address: string): Promise<void>;
}

export function createRates({
  anonymousPerSecondMax,
  nowMs,
  newSecretsPerSecondMax = NEW_SECRETS_PER_SECOND_MAX,
  onRefusal,
}: {
  readonly anonymousPerSecondMax: number;
  /** A monotonic reading, in milliseconds. */
  readonly nowMs: () => number;
  readonly newSecretsPerSecondMax?: number | undefined;
  /** Called for each refusal of an address, for metrics. */
  readonly onRefusal: (limit: string) => void;
}): Rates {
  const calls = limiterOf(0);
  const shut = { anonymous: shutFor(nowMs), newSecret: shutFor(nowMs) };
  const over = async (
    limiter: RateLimiterMemory,
    { key, count, max }: { key: string; count: number; max: number },
  ): Promise<Over | undefined> => {
    const { consumedPoints, msBeforeNext }: RateLimiterRes = await limiter.penalty(key, count);
    if (consumedPoints <= max) return undefined;
    return {
      retryAfterMs: Math.max(1, Math.ceil(msBeforeNext)),
      isShut: consumedPoints > max * SHUT_TIMES,
    };
  };
  const byAddress = (
    limit: string,
    max: number,
    shutOfKind?: ReturnType<typeof shutFor>,
  ): ((address: string) => Promise<void>) => {
    const limiter = limiterOf(max);
    return async (address) => {
      const key = sourceOfTries({ address });
      const isOver = await over(limiter, { key, count: 1, max });
      if (isOver === undefined) return;
      if (isOver.isShut) shutOfKind?.add(key, isOver.retryAfterMs);
      onRefusal(limit);
      throw rateLimited(limit, max, isOver.retryAfterMs);
    };
  };
  return {
    over: (key, count, max) => over(calls, { key, count, max }),
    isShut: (kind, address) => shut[kind].has(sourceOfTries({ address })),
    anonymous: byAddress('requestsWithoutToken', anonymousPerSecondMax, shut.anonymous),
    newSecret: byAddress('newTokens', newSecretsPerSecondMax, shut.newSecret),
    signIn: byAddress('signIns', SIGN_INS_PER_SECOND_MAX),
  };
}

function limiterOf(points: number): RateLimiterMemory {
  return new RateLimiterMemory({ points, duration: WINDOW_SECONDS });
}

/** Addresses that are not answered, each until a time. */
function shutFor(nowMs: () => number): {
  add(address: string, ms: number): void;
  has(address: string): boolean;
} {
  const untilMs = new Map<string, number>();
  const has = (address: string): boolean => nowMs() < (untilMs.get(address) ?? -Infinity);
  return {
    add(address, ms) {
      if (untilMs.size >= SHUT_MAX) {
        for (const known of untilMs.keys()) if (!has(known)) untilMs.delete(known);
        if (untilMs.size >= SHUT_MAX) return;
      }
      untilMs.set(address, nowMs() + ms);
    },
    has,
  };
}

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
