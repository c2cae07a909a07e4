import { RateLimiterMemory, type RateLimiterRes } from 'rate-limiter-flexible';
import { LeaseError } from '@leasehold/keys-core';
import { sourceOfTries } from '@leasehold/keys-core/access';
import { FairQueue } from '@leasehold/service-kit/fair-queue';

// The rates of strangers, by one library: requests without a good token by address, secrets that were never seen
// before, and passwords. Windows of a second. Calls of those who are known are counted in `fair-use.ts`, without a
// promise and a timer for each.

/** Secrets never seen before that one address may try in a second. Many share one statement. */
const NEW_SECRETS_PER_SECOND_MAX = 1_000;
/** Sign-ins that one address may try in a second: each costs a core for a while. */
const SIGN_INS_PER_SECOND_MAX = 10;
const WINDOW_SECONDS = 1;

/** One that goes on after this many times its limit is not answered any more: answers cost too. */
export const SHUT_TIMES = 2;
/** So many addresses that are not answered are remembered; others are answered with a refusal. */
const SHUT_MAX = 10_000;

export interface Rates {
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
  const shut = { anonymous: shutFor(nowMs), newSecret: shutFor(nowMs) };
  const byAddress = (
    limit: string,
    max: number,
    shutOfKind?: ReturnType<typeof shutFor>,
  ): ((address: string) => Promise<void>) => {
    const limiter = limiterOf(max);
    return async (address) => {
      const key = sourceOfTries({ address });
      const { consumedPoints, msBeforeNext }: RateLimiterRes = await limiter.penalty(key, 1);
      if (consumedPoints <= max) return;
      const retryAfterMs = Math.max(1, Math.ceil(msBeforeNext));
      if (consumedPoints > max * SHUT_TIMES) shutOfKind?.add(key, retryAfterMs);
      onRefusal(limit);
      throw rateLimited(limit, max, retryAfterMs);
    };
  };
  return {
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

/** Reads under way at once: a few more than the connections that lists have. */
const AT_ONCE_MAX = 8;
/** So that one caller, however many connections it has, leaves places to the others. */
const AT_ONCE_PER_PRINCIPAL_MAX = 3;
/** Of those in the background, so that reads that somebody waits for find a place and a connection. */
const BACKGROUND_AT_ONCE_MAX = 2;
const WAITING_PER_PRINCIPAL_MAX = 1_000;
/** Large answers that one principal gets: about a sixth of what one event loop can write. */
const LARGE_BYTES_PER_SECOND = 8 * 1_024 * 1_024;
/** Answers below this cost little beside the read itself. */
const LARGE_BYTES_MIN = 16 * 1_024;
/** How far ahead of its rate a principal may be before its next read waits. */
const AHEAD_MS_MAX = 100;

type ReadKind = 'asked' | 'background';

/**
 * Bounds how many reads run at once, of one principal and in all: lists, details, exports, and the
 * pages of event streams that are behind. Principals are served in turn. Reads that
 * safety depends on, and changes of leases, do not go through here.
 */
export interface ReadLane {
  /** @throws {LeaseError} `request.rate_limited` when too many of this principal wait. */
  through<T>(principal: string, run: () => Promise<T>, kind?: ReadKind): Promise<T>;
  /** Notes an answer. A principal whose large ones exceed what the event loop can spare waits. */
  answered(principal: string, bytes: number): void;
  readonly waitingCount: number;
}

/** @param nowMs a monotonic reading, in milliseconds. */
export function createReadLane(nowMs: () => number): ReadLane {
  return new Lane(nowMs);
}

class Lane implements ReadLane {
  readonly #nowMs: () => number;
  readonly #waiting: Record<ReadKind, FairQueue<() => void>> = {
    asked: new FairQueue(),
    background: new FairQueue(),
  };
  readonly #runningBy = new Map<string, number>();
  /** Until when the large answers of a principal use up its rate; only principals that are ahead of it. */
  readonly #answeredUntilMs = new Map<string, number>();
  readonly #paused = new Set<string>();
  #running: Record<ReadKind, number> = { asked: 0, background: 0 };

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  get waitingCount(): number {
    return this.#waiting.asked.size + this.#waiting.background.size;
  }

  async through<T>(principal: string, run: () => Promise<T>, kind: ReadKind = 'asked'): Promise<T> {
    if (this.#hasPlace(kind) && this.#mayRun(principal)) this.#take(principal, kind);
    else await this.#wait(principal, kind);
    try {
      return await run();
    } finally {
      this.#leave(principal, kind);
    }
  }

  answered(principal: string, bytes: number): void {
    if (bytes < LARGE_BYTES_MIN) return;
    const nowMs = this.#nowMs();
    const tookMs = (bytes / LARGE_BYTES_PER_SECOND) * 1_000;
    const knownUntilMs = this.#answeredUntilMs.get(principal);
    const untilMs = Math.max(nowMs, knownUntilMs ?? nowMs) + tookMs;
    this.#answeredUntilMs.set(principal, untilMs);
    if (untilMs - nowMs > AHEAD_MS_MAX) this.#paused.add(principal);
    if (knownUntilMs === undefined) this.#resumeWhenDue(principal);
  }

  #resumeWhenDue(principal: string): void {
    const aheadMs = (this.#answeredUntilMs.get(principal) ?? 0) - this.#nowMs();
    if (aheadMs > 0) {
      setTimeout(() => this.#resumeWhenDue(principal), aheadMs).unref();
      return;
    }
    this.#answeredUntilMs.delete(principal);
    this.#paused.delete(principal);
    this.#beginWaiting('asked');
    this.#beginWaiting('background');
  }

  #wait(principal: string, kind: ReadKind): Promise<void> {
    const waiting = this.#waiting[kind];
    if (waiting.sizeOf(principal) >= WAITING_PER_PRINCIPAL_MAX) {
      throw rateLimited('reads', WAITING_PER_PRINCIPAL_MAX);
    }
    return new Promise((resolve) =>
      waiting.push(principal, () => {
        this.#take(principal, kind);
        resolve();
      }),
    );
  }

  #hasPlace(kind: ReadKind): boolean {
    const { asked, background } = this.#running;
    if (asked + background >= AT_ONCE_MAX) return false;
    return kind === 'asked' || background < BACKGROUND_AT_ONCE_MAX;
  }

  #mayRun(principal: string): boolean {
    if (this.#paused.has(principal)) return false;
    const isAhead = this.#answeredUntilMs.has(principal);
    // The rows of several large pages in one turn of the event loop make it a long one.
    const max = isAhead ? 1 : AT_ONCE_PER_PRINCIPAL_MAX;
    return (this.#runningBy.get(principal) ?? 0) < max;
  }

  #take(principal: string, kind: ReadKind): void {
    this.#running[kind] += 1;
    this.#runningBy.set(principal, (this.#runningBy.get(principal) ?? 0) + 1);
  }

  #leave(principal: string, kind: ReadKind): void {
    this.#running[kind] -= 1;
    const left = (this.#runningBy.get(principal) ?? 1) - 1;
    if (left === 0) this.#runningBy.delete(principal);
    else this.#runningBy.set(principal, left);
    this.#beginWaiting('asked');
    this.#beginWaiting('background');
  }

  #beginWaiting(kind: ReadKind): void {
    while (this.#hasPlace(kind)) {
      const begin = this.#waiting[kind].shift((principal) => this.#mayRun(principal));
      if (begin === undefined) return;
      begin();
    }
  }
}

/** After this many events in a row a stream waits for its turn. */
const EVENTS_PER_TURN = 16;
/** This many streams continue in one turn of the event loop: some 50 events, a few milliseconds. */
const STREAMS_PER_TURN = 3;
/** When these take longer, they rest for as long as they took: others have half of the time. */
const TURN_MS_MAX = 4;

/**
 * Lets streams that have much to send take turns, so that the rest of the controller gets as much of
 * each turn of the event loop as it needs, however many streams there are.
 */
export interface StreamPacer {
  /** A place for one stream: call it before each event. Undefined: continue at once. */
  open(principal: string): () => Promise<void> | undefined;
}

/** @param nowMs a monotonic reading, in milliseconds. */
export function createStreamPacer(nowMs: () => number): StreamPacer {
  const waiting = new FairQueue<() => void>();
  let isTurnDue = false;
  const turn = (): void => {
    const beganAtMs = nowMs();
    for (let count = 0; count < STREAMS_PER_TURN; count += 1) waiting.shift()?.();
    // They go on when this function has returned, and are done with their turn before the next one of the event loop.
    setImmediate(() => {
      const tookMs = nowMs() - beganAtMs;
      isTurnDue = false;
      schedule(tookMs > TURN_MS_MAX ? tookMs : 0);
    });
  };
  const schedule = (restMs: number): void => {
    if (isTurnDue || waiting.size === 0) return;
    isTurnDue = true;
    if (restMs > 0) setTimeout(turn, restMs).unref();
    else setImmediate(turn);
  };
  return {
    open(principal) {
      let eventCount = 0;
      return () => {
        eventCount += 1;
        if (eventCount % EVENTS_PER_TURN !== 0) return undefined;
        return new Promise((resolve) => {
          waiting.push(principal, resolve);
          schedule(0);
        });
      };
    },
  };
}

/** What gives a share back: `fn` runs at the first call, and nothing at the others. */
export function once(fn: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    fn();
  };
}
