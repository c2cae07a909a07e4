/** How calls are limited in time, and retried. */
import { backoffMs } from '@leasehold/keys-core';
import { onAbort } from '@leasehold/service-kit/signals';
import { outsideOfWork } from '../context/work-context.ts';
import { pause, type Machine } from '../machine.ts';
import { Ending, sharedController } from '../signals.ts';
import {
  callErrorOf,
  DatacenterUnreachableError,
  LeaseholdCallError,
  OutcomeUnknownError,
} from '../transport/errors.ts';
import type { Reachability } from '../transport/links.ts';

const RETRY_FIRST_MS = 50;
const RETRY_MS_MAX = 2_000;

/** Errors that may pass within the time of one call. A hold-off, for example, lasts too long for that. */
const PASSING = new Set([
  'request.outcome_unknown',
  'request.unreachable',
  'request.deadline',
  'request.rate_limited',
  'store.unavailable',
  'controller.stopping',
  'controller.overloaded',
  'grant.contended',
]);

/** Those after which nobody knows whether the call was carried out. */
const UNKNOWN = new Set(['request.outcome_unknown', 'request.deadline']);

/** Whether the same request, with its idempotency key, may be sent again at once. */
export function isPassing(error: unknown): boolean {
  return error instanceof LeaseholdCallError && PASSING.has(error.code);
}

/**
 * Whether to send again a call that must arrive in the end, such as a release. Other calls of those who do not wait
 * in line fail at once if the datacenter is unreachable, because it may stay so for long.
 */
export function mayPassInTime(error: unknown): boolean {
  return isPassing(error) || error instanceof DatacenterUnreachableError;
}

/**
 * For how long after its begin an acquire is tried again after such a failure; 0 for one that will not pass. A
 * datacenter may stay unreachable for long: who does not wait in line is told at once. So is a caller whose wait
 * ends before a hold-off. Milliseconds.
 */
export function triedForMs(
  error: unknown,
  { waitMs, answerMs }: { readonly waitMs: number; readonly answerMs: number },
): number {
  if (error instanceof DatacenterUnreachableError) return waitMs;
  if (isHoldOff(error)) {
    const { remainingMs } = error.details;
    return typeof remainingMs === 'number' ? Math.max(0, waitMs - remainingMs) : 0;
  }
  return isPassing(error) ? waitMs + answerMs : 0;
}

/** Whether nothing new is granted for now, after a restore or a failover. */
export function isHoldOff(error: unknown): error is LeaseholdCallError {
  return error instanceof LeaseholdCallError && error.code === 'grant.hold_off';
}

/** Whether a call failed in a way that may pass, and has surely changed nothing. */
export function wasNotCarriedOut(error: unknown): boolean {
  return isPassing(error) && !UNKNOWN.has((error as LeaseholdCallError).code);
}

/**
 * Makes one call and limits it to `ms` milliseconds of this machine's clock.
 * @throws {OutcomeUnknownError} when they are over; the signal's reason when that aborts first.
 */
export function callWithin<T>(
  { clock }: Machine,
  bounds: { readonly ms: number; readonly signal?: AbortSignal | undefined },
  call: (ending: Ending) => Promise<T>,
): Promise<T> {
  const { signal } = bounds;
  return new Promise((resolve, reject) => {
    // Before anything is sent: also an end of the whole client comes as a signal.
    signal?.throwIfAborted();
    const ending = new Ending();
    const cancel = clock.at(clock.nowMs() + bounds.ms, () => ending.end(new OutcomeUnknownError()));
    const unfollow = signal && onAbort(signal, (reason) => ending.end(reason));
    const leave = (): void => {
      cancel();
      unfollow?.();
    };
    const fail = (error: unknown): void => {
      leave();
      reject(reasonOf(callErrorOf(error)));
    };
    ending.onEnd(fail);
    call(ending).then((answer) => {
      leave();
      resolve(answer);
    }, fail);
  });
}

/** What was thrown, for a promise that is to be rejected with it unchanged. */
export function reasonOf(thrown: unknown): Error {
  return thrown as Error;
}

/** One try of a call: it may be ended before its answer. */
class Try extends Ending {
  /** By the clock of this machine. */
  readonly untilMs: number;
  /** Those that began before and after it and are running. */
  before: Try | undefined;
  after: Try | undefined;

  constructor(untilMs: number) {
    super();
    this.untilMs = untilMs;
  }
}

/**
 * Tries that may all take equally long, for calls that are made again and again: one tick ends those whose time
 * is over, and one signal all of them, so that a call that is answered costs no timer and no listener.
 *
 * They are a list, in the order in which their time is over, and no `Set`: the table of a set that much is added to
 * and deleted from is replaced again and again, and the tables before it keep what they held until a full collection.
 */
export class Tries {
  readonly #clock: Machine['clock'];
  readonly #ms: number;
  #first: Try | undefined;
  #last: Try | undefined;
  #stopTicking: (() => void) | undefined;

  /** `over` ends those that are running; after it none may begin. */
  constructor({ clock }: Machine, ms: number, over: AbortSignal) {
    this.#clock = clock;
    this.#ms = ms;
    onAbort(over, (reason) => {
      for (let one = this.#first; one !== undefined; one = one.after) one.end(reason);
    });
  }

  /** Begins one, which ends with an {@link OutcomeUnknownError} when its time is over. */
  begin(nowMs: number): Try {
    const one = new Try(nowMs + this.#ms);
    one.before = this.#last;
    if (this.#last === undefined) this.#first = one;
    else this.#last.after = one;
    this.#last = one;
    this.#stopTicking ??= outsideOfWork(() => this.#clock.onTick((atMs) => this.#tick(atMs)));
    return one;
  }

  /** It was answered. To be called once. */
  end(one: Try): void {
    const { before, after } = one;
    if (before === undefined) this.#first = after;
    else before.after = after;
    if (after === undefined) this.#last = before;
    else after.before = before;
    one.before = undefined;
    one.after = undefined;
    if (this.#first !== undefined) return;
    this.#stopTicking?.();
    this.#stopTicking = undefined;
  }

  #tick(nowMs: number): void {
    for (let one = this.#first; one !== undefined && one.untilMs <= nowMs; one = one.after) {
      one.end(new OutcomeUnknownError());
    }
  }
}

/** Waits before the next try after so many failures in a row. */
export function pauseBeforeRetry(
  machine: Machine,
  failureCount: number,
  signal?: AbortSignal,
): Promise<void> {
  const waitMs = backoffMs(failureCount, {
    firstMs: RETRY_FIRST_MS,
    maxMs: RETRY_MS_MAX,
    random: () => machine.random(),
  });
  return pause(machine, waitMs, signal);
}

/**
 * Repeats a call that is safe to repeat until it is answered; `mayPass` decides after which
 * failures, and is {@link isPassing} by default.
 * @throws a failure that will not pass, or the last failure when the time is over.
 */
export async function untilAnswered<T>(
  machine: Machine,
  bounds: {
    readonly untilMs: number;
    /** Read before each try. */
    readonly tryMs: number;
    readonly signal: AbortSignal | undefined;
    readonly mayPass?: ((error: unknown) => boolean) | undefined;
    /** Whether to try no more, for calls that began at that moment. */
    readonly isHopeless?: ((momentMs: number) => boolean) | undefined;
  },
  call: (ending: Ending) => Promise<T>,
): Promise<T> {
  const beganAtMs = machine.clock.nowMs();
  for (let failureCount = 1; ; failureCount += 1) {
    try {
      return await callWithin(machine, { ms: bounds.tryMs, signal: bounds.signal }, call);
    } catch (error) {
      const mayPass = bounds.mayPass ?? isPassing;
      if (!mayPass(error) || machine.clock.nowMs() >= bounds.untilMs) throw error;
      if (bounds.isHopeless?.(beganAtMs) === true) throw error;
    }
    await pauseBeforeRetry(machine, failureCount, bounds.signal);
  }
}

/** What a subscription tells of itself, see {@link keepSubscribed}. */
export interface SubscriptionKeeper {
  /** It works: the pause before the next one is the shortest again. */
  readonly worked: () => void;
  readonly failed: (thrown: unknown) => void;
  /** It is complete, although there is more to come: its controller stops, for example. */
  readonly ended: () => void;
}

/**
 * Subscribes, and again after each end that passes by itself. Other errors are told to `onError`, also that nobody
 * was ever there.
 * @returns a function that ends it.
 */
export function keepSubscribed(
  deps: { readonly machine: Machine; readonly reachability: Pick<Reachability, 'isHopeless'> },
  subscribe: (keeper: SubscriptionKeeper) => { unsubscribe(): void },
  onError: (error: unknown) => void,
): () => void {
  const { machine, reachability } = deps;
  const over = new AbortController();
  const beganAtMs = machine.clock.nowMs();
  let failureCount = 0;
  let leave = (): void => undefined;
  const again = (): void => {
    if (over.signal.aborted) return;
    leave();
    failureCount += 1;
    pauseBeforeRetry(machine, failureCount, over.signal).then(open, () => undefined);
  };
  const keeper: SubscriptionKeeper = {
    worked() {
      failureCount = 0;
    },
    failed(thrown) {
      const error = callErrorOf(thrown);
      const isFinal = error instanceof LeaseholdCallError && !error.retryable;
      if (isFinal || reachability.isHopeless(beganAtMs)) onError(error);
      else again();
    },
    ended: again,
  };
  const open = (): void => {
    const subscription = subscribe(keeper);
    leave = () => subscription.unsubscribe();
  };
  open();
  return () => {
    over.abort();
    leave();
  };
}

/**
 * The end of a client, in two steps, and its calls that nobody waits for any more, such as the release of a
 * grant whose caller has gone on. First callers are refused and waits end; then these calls end too.
 */
export class Background {
  #runningCount = 0;
  #onIdle: (() => void)[] = [];
  readonly #closing = sharedController();
  readonly #ending = sharedController();

  /** Aborts as soon as the client is closed, with `client.closed`. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Aborts when the client is closed, after running calls have had some time to finish. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /** Runs it to its end and ignores a failure, because a grant that is not released expires by itself. */
  add(work: Promise<unknown>): void {
    this.began();
    const ended = (): void => this.ended();
    work.then(ended, ended);
  }

  /** A call of that kind has begun. */
  began(): void {
    this.#runningCount += 1;
  }

  /** It has ended. */
  ended(): void {
    this.#runningCount -= 1;
    if (this.#runningCount > 0) return;
    for (const tell of this.#onIdle.splice(0)) tell();
  }

  /** @throws {LeaseholdCallError} `client.closed`. */
  throwIfClosing(): void {
    this.#closing.signal.throwIfAborted();
  }

  /** The client is closed: from now on its callers are refused, and none waits. */
  close(): void {
    this.#closing.abort(new LeaseholdCallError('client.closed'));
  }

  /** Lets running calls finish until `isEnough` is fulfilled, and ends the others. */
  async end(isEnough: Promise<unknown>): Promise<void> {
    await Promise.race([this.idle(), isEnough]);
    this.#ending.abort(this.#closing.signal.reason);
  }

  /** Fulfilled when all running calls have ended. */
  async idle(): Promise<void> {
    while (this.#runningCount > 0) await new Promise<void>((tell) => this.#onIdle.push(tell));
  }
}
