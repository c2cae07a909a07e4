/**
 * The coalescer: many callers, few statements. The store sends its statements through it, and the
 * client library its calls.
 *
 * While statements are in flight, calls of the same kind wait in a queue; the next statement takes
 * as much of the queue as it may. An idle system adds no delay: the first call leaves at once. This
 * is where the throughput comes from: 100 acquires in one statement cost about as much as seven
 * sent alone.
 *
 * What it promises:
 *
 * - A batch holds each key of {@link CoalescerOptions.keysOf} at most once, and never one that is in
 *   a batch in flight: `on conflict` fails a statement that meets a row twice, and two statements
 *   that want one row would only wait for each other. The later call goes into a later batch, so
 *   calls for one key are carried out in the order in which they came.
 * - One bad item never fails its neighbours: a batch that fails with a data error is split in
 *   halves until the bad item is alone; one that fails by contention is retried once, then split.
 * - A caller that gave up while it was queued is dropped when the batch is formed. One that gave up
 *   later is not waited for, but its statement goes on: its outcome is then unknown.
 * - Bounds: `batchSizeMax` items in a statement, `inFlightMax` statements at once, `queueMax` calls
 *   waiting; beyond that a call is refused at once instead of being late.
 */
import { LeaseError } from './errors.ts';

/**
 * What to do about a batch that failed.
 *
 * - `contention`: it lost against another one and may be sent again.
 * - `data`: something in it cannot be accepted; the other items of its batch are innocent.
 *
 * Anything else fails all of the batch.
 */
export type BatchFailure = 'contention' | 'data';

/**
 * What began each call, kept until its batch is carried out: a batch may be sent when another one is
 * answered, which began in another place.
 */
export interface BatchOrigins {
  /** Read for each call. */
  readonly read: () => unknown;
  /** Runs a batch, with what was read for its calls. */
  readonly run: <Result>(origins: readonly unknown[], work: () => Result) => Result;
}

export interface CoalescerOptions<Item, Answer> {
  /**
   * Carries out one statement. Answers in the order of the items, one for each; an item that must be
   * tried again alone is answered by a promise, so that its neighbours do not wait for it.
   */
  readonly run: (items: readonly Item[]) => Promise<readonly (Answer | Promise<Answer>)[]>;
  /** What may be in flight only once: a resource, a lease id, an idempotency key. By default nothing. */
  readonly keysOf?: ((item: Item) => readonly string[]) | undefined;
  /** Classifies what `run` threw; undefined for an error that concerns the whole batch. */
  readonly failureOf: (error: unknown) => BatchFailure | undefined;
  readonly batchSizeMax: number;
  readonly inFlightMax: number;
  readonly queueMax: number;
  /**
   * Whether a statement leaves at the end of the turn of the event loop, and not with its first
   * call. The calls that one read of a socket brought then travel together; the wait is the time that it
   * takes to process them, and nothing on an idle system.
   */
  readonly isGathering?: boolean | undefined;
  /** Read for each call if {@link Coalescer.backlog} is to say how long the oldest one waits. */
  readonly nowMs?: (() => number) | undefined;
  /** Where calls come from, for traces. */
  readonly origins?: BatchOrigins | undefined;
  /** Called with the size of every batch, for metrics. */
  readonly onBatch?: ((size: number) => void) | undefined;
}

/** Whether the caller has given up, and why. An `AbortSignal` is one. */
export interface GivenUp extends Pick<AbortSignal, 'aborted' | 'reason'> {
  /** Calls `fn` with the reason when the caller gives up: a call that was submitted with it fails then. */
  readonly onEnd?: ((fn: (reason: unknown) => void) => void) | undefined;
}

export interface Coalescer<Item, Answer> {
  /** @throws {LeaseError} `request.rate_limited` when the queue is full; else what `run` throws. */
  submit(item: Item, signal?: GivenUp): Promise<Answer>;
  /**
   * The same for many items, which travel together as far as possible: one call of a thousand
   * items costs one statement, without an extra one for its first item. Answers in the order of the
   * items; fails when one of them fails.
   */
  submitAll(items: readonly Item[], signal?: GivenUp): Promise<Answer[]>;
  /** The calls that wait for a statement, and for how long the oldest of them has; milliseconds. */
  backlog(): { readonly count: number; readonly oldestMs: number };
}

interface Call<Item, Answer> {
  readonly item: Item;
  readonly keys: readonly string[];
  readonly signal: GivenUp | undefined;
  readonly queuedAtMs: number;
  readonly origin: unknown;
  readonly resolve: (answer: Answer | Promise<Answer>) => void;
  readonly reject: (error: unknown) => void;
}

export function createCoalescer<Item, Answer>(
  options: CoalescerOptions<Item, Answer>,
): Coalescer<Item, Answer> {
  return new Coalescing(options);
}

const NO_KEYS: readonly string[] = [];

class Coalescing<Item, Answer> implements Coalescer<Item, Answer> {
  readonly #options: CoalescerOptions<Item, Answer>;
  readonly #keysInFlight = new Set<string>();
  #queue: Call<Item, Answer>[] = [];
  #inFlightCount = 0;
  #isGathering = false;
  readonly #leave = (): void => {
    this.#isGathering = false;
    this.#pump();
  };

  constructor(options: CoalescerOptions<Item, Answer>) {
    this.#options = options;
  }

  submit(item: Item, signal?: GivenUp): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#queue.length >= this.#options.queueMax) {
        reject(new LeaseError('request.rate_limited'));
        return;
      }
      signal?.onEnd?.(reject);
      this.#queue.push(this.#callOf(item, signal, resolve, reject));
      this.#arrived();
    });
  }

  submitAll(items: readonly Item[], signal?: GivenUp): Promise<Answer[]> {
    if (items.length === 0) return Promise.resolve([]);
    return new Promise((resolve, reject) => {
      const answers = new Array<Answer>(items.length);
      let missingCount = items.length;
      const calls = items.map((item, place) => {
        const take = (answer: Answer | Promise<Answer>): void => {
          // One promise for the whole call; only an item that is retried alone has one of its own.
          if (answer instanceof Promise) {
            answer.then(take, reject);
            return;
          }
          answers[place] = answer;
          missingCount -= 1;
          if (missingCount === 0) resolve(answers);
        };
        return this.#callOf(item, signal, take, reject);
      });
      if (this.#queue.length + calls.length > this.#options.queueMax) {
        reject(new LeaseError('request.rate_limited'));
        return;
      }
      for (const call of calls) this.#queue.push(call);
      this.#arrived();
    });
  }

  backlog(): { count: number; oldestMs: number } {
    const [oldest] = this.#queue;
    const oldestMs = oldest === undefined ? 0 : this.#nowMs() - oldest.queuedAtMs;
    return { count: this.#queue.length, oldestMs };
  }

  #callOf(
    item: Item,
    signal: GivenUp | undefined,
    resolve: Call<Item, Answer>['resolve'],
    reject: Call<Item, Answer>['reject'],
  ): Call<Item, Answer> {
    const { keysOf, origins } = this.#options;
    const origin = origins?.read();
    const queuedAtMs = this.#nowMs();
    const keys = keysOf === undefined ? NO_KEYS : keysOf(item);
    return { item, keys, signal, queuedAtMs, origin, resolve, reject };
  }

  #nowMs(): number {
    return this.#options.nowMs?.() ?? 0;
  }

  /** Something was queued, or a batch in flight has ended. */
  #arrived(): void {
    if (this.#options.isGathering !== true) {
      this.#pump();
    } else if (!this.#isGathering) {
      this.#isGathering = true;
      // eslint-disable-next-line no-restricted-globals -- no time: the end of this turn of the event loop
      setImmediate(this.#leave);
    }
  }

  #pump(): void {
    while (this.#inFlightCount < this.#options.inFlightMax && this.#queue.length > 0) {
      const batch = this.#takeBatch();
      if (batch.length === 0) return;
      this.#inFlightCount += 1;
      void this.#carryOut(batch);
    }
  }

  #ended(batch: readonly Call<Item, Answer>[]): void {
    this.#inFlightCount -= 1;
    for (const { keys } of batch) for (const key of keys) this.#keysInFlight.delete(key);
    if (this.#queue.length > 0) this.#arrived();
  }

  /** Takes from the queue what one statement may hold, in order; the rest keeps its place. */
  #takeBatch(): Call<Item, Answer>[] {
    const batch: Call<Item, Answer>[] = [];
    const rest: Call<Item, Answer>[] = [];
    // A key that stays behind blocks its later calls too, so that they keep their order.
    let blocked: Set<string> | undefined;
    let seenCount = 0;
    for (const call of this.#queue) {
      if (batch.length === this.#options.batchSizeMax) break;
      seenCount += 1;
      if (call.signal?.aborted === true) {
        call.reject(call.signal.reason);
        continue;
      }
      if (this.#isFree(call, blocked)) {
        batch.push(call);
        for (const key of call.keys) this.#keysInFlight.add(key);
      } else {
        rest.push(call);
        blocked ??= new Set();
        for (const key of call.keys) blocked.add(key);
      }
    }
    this.#queue =
      seenCount === this.#queue.length ? rest : rest.concat(this.#queue.slice(seenCount));
    return batch;
  }

  #isFree({ keys }: Call<Item, Answer>, blocked: ReadonlySet<string> | undefined): boolean {
    for (const key of keys) {
      if (this.#keysInFlight.has(key) || blocked?.has(key) === true) return false;
    }
    return true;
  }

  async #carryOut(batch: readonly Call<Item, Answer>[]): Promise<void> {
    try {
      await this.#answer(batch, 1);
    } finally {
      this.#ended(batch);
    }
  }

  async #answer(batch: readonly Call<Item, Answer>[], triesLeft: number): Promise<void> {
    this.#options.onBatch?.(batch.length);
    let answers: readonly (Answer | Promise<Answer>)[];
    try {
      answers = await this.#run(batch);
    } catch (error) {
      await this.#recover(batch, triesLeft, error);
      return;
    }
    for (const [index, call] of batch.entries()) call.resolve(answers[index] as Answer);
  }

  #run(batch: readonly Call<Item, Answer>[]): Promise<readonly (Answer | Promise<Answer>)[]> {
    const { run, origins } = this.#options;
    const items = batch.map((call) => call.item);
    if (origins === undefined || batch[0]?.origin === undefined) return run(items);
    return origins.run(
      batch.map((call) => call.origin),
      () => run(items),
    );
  }

  async #recover(batch: readonly Call<Item, Answer>[], triesLeft: number, error: unknown) {
    const failure = this.#options.failureOf(error);
    if (failure === 'contention' && triesLeft > 0) {
      await this.#answer(batch, triesLeft - 1);
    } else if ((failure === 'contention' || failure === 'data') && batch.length > 1) {
      const middle = Math.ceil(batch.length / 2);
      await this.#answer(batch.slice(0, middle), 1);
      await this.#answer(batch.slice(middle), 1);
    } else {
      for (const call of batch) call.reject(error);
    }
  }
}
