/**
 * The coalescer: many callers, few statements.
 *
 * While statements are in flight, calls of the same kind wait in a queue; the next statement takes
 * all of the queue that it may. An idle system adds no delay: the first call leaves at once. This
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
 *   halves until the bad item is alone; one that fails by contention is tried once more, then split.
 * - A caller that gave up while it was queued is dropped when the batch is formed. One that gave up
 *   later is not waited for, but its statement goes on: see `outcome unknown` in the store.
 * - Bounds: `batchSizeMax` items in a statement, `inFlightMax` statements at once, `queueMax` calls
 *   waiting; beyond that a call is refused at once instead of being late.
 */
import { LeaseError } from '../kernel/errors.ts';
import { databaseFailureOf } from './database-errors.ts';

export interface CoalescerOptions<Item, Answer> {
  /**
   * Carries out one statement. Answers in the order of the items, one for each; an item that must be
   * tried again alone is answered by a promise, so that its neighbours do not wait for it.
   */
  readonly run: (items: readonly Item[]) => Promise<readonly (Answer | Promise<Answer>)[]>;
  /** What may be in flight only once: a resource, a lease id, an idempotency key. */
  readonly keysOf: (item: Item) => readonly string[];
  readonly batchSizeMax: number;
  readonly inFlightMax: number;
  readonly queueMax: number;
  /**
   * Whether a statement leaves at the end of the turn of the event loop, and not with its first
   * call. What one read of a socket brought then travels together; the wait is the time that it
   * takes to go through it, and nothing on an idle system.
   */
  readonly isGathering?: boolean | undefined;
  /** Told the size of every batch, for metrics. */
  readonly onBatch?: ((size: number) => void) | undefined;
}

export interface Coalescer<Item, Answer> {
  /** @throws {LeaseError} `request.rate_limited` when the queue is full; else what `run` throws. */
  submit(item: Item, signal?: AbortSignal): Promise<Answer>;
  /**
   * The same for many at once, which travel together as far as they may: one call of a thousand
   * items costs one statement, not a first one for its first item. Answers in the order of the
   * items; fails when one of them fails.
   */
  submitAll(items: readonly Item[], signal?: AbortSignal): Promise<Answer[]>;
}

interface Call<Item, Answer> {
  readonly item: Item;
  readonly keys: readonly string[];
  readonly signal: AbortSignal | undefined;
  readonly resolve: (answer: Answer | Promise<Answer>) => void;
  readonly reject: (error: unknown) => void;
}

export function createCoalescer<Item, Answer>(
  options: CoalescerOptions<Item, Answer>,
): Coalescer<Item, Answer> {
  let queue: Call<Item, Answer>[] = [];
  const keysInFlight = new Set<string>();
  let inFlightCount = 0;
  let isGathering = false;

  /** Takes from the queue what one statement may hold, in order; the rest keeps its place. */
  function takeBatch(): Call<Item, Answer>[] {
    const batch: Call<Item, Answer>[] = [];
    const rest: Call<Item, Answer>[] = [];
    // A key that stays behind blocks its later calls too, so that they keep their order.
    const blocked = new Set<string>();
    for (const call of queue) {
      if (call.signal?.aborted === true) {
        call.reject(call.signal.reason);
        continue;
      }
      const isFree = call.keys.every((key) => !keysInFlight.has(key) && !blocked.has(key));
      if (isFree && batch.length < options.batchSizeMax) {
        batch.push(call);
        for (const key of call.keys) keysInFlight.add(key);
      } else {
        rest.push(call);
        for (const key of call.keys) blocked.add(key);
      }
    }
    queue = rest;
    return batch;
  }

  function pump(): void {
    while (inFlightCount < options.inFlightMax && queue.length > 0) {
      const batch = takeBatch();
      if (batch.length === 0) return;
      inFlightCount += 1;
      void carryOut(batch).finally(() => {
        inFlightCount -= 1;
        for (const call of batch) for (const key of call.keys) keysInFlight.delete(key);
        arrived();
      });
    }
  }

  /** Something has come into the queue. */
  function arrived(): void {
    if (options.isGathering !== true) {
      pump();
    } else if (!isGathering) {
      isGathering = true;
      setImmediate(() => {
        isGathering = false;
        pump();
      });
    }
  }

  async function carryOut(batch: readonly Call<Item, Answer>[], triesLeft = 1): Promise<void> {
    options.onBatch?.(batch.length);
    let answers: readonly (Answer | Promise<Answer>)[];
    try {
      answers = await options.run(batch.map((call) => call.item));
    } catch (error) {
      await recover(batch, triesLeft, error);
      return;
    }
    batch.forEach((call, index) => {
      call.resolve(answers[index] as Answer);
    });
  }

  async function recover(
    batch: readonly Call<Item, Answer>[],
    triesLeft: number,
    error: unknown,
  ): Promise<void> {
    const failure = databaseFailureOf(error);
    if (failure === 'contention' && triesLeft > 0) {
      await carryOut(batch, triesLeft - 1);
    } else if ((failure === 'contention' || failure === 'data') && batch.length > 1) {
      const middle = Math.ceil(batch.length / 2);
      await carryOut(batch.slice(0, middle));
      await carryOut(batch.slice(middle));
    } else {
      for (const call of batch) call.reject(error);
    }
  }

  return {
    submit: (item, signal) =>
      new Promise((resolve, reject) => {
        if (queue.length >= options.queueMax) {
          reject(new LeaseError('request.rate_limited'));
          return;
        }
        queue.push({ item, keys: options.keysOf(item), signal, resolve, reject });
        arrived();
      }),
    submitAll: (items, signal) =>
      new Promise((resolve, reject) => {
        if (items.length === 0) {
          resolve([]);
          return;
        }
        if (queue.length + items.length > options.queueMax) {
          reject(new LeaseError('request.rate_limited'));
          return;
        }
        const answers = new Array<Answer>(items.length);
        let missingCount = items.length;
        for (const [place, item] of items.entries()) {
          const take = (answer: Answer | Promise<Answer>): void => {
            // One promise for all of a call; only what is tried again alone has one of its own.
            if (answer instanceof Promise) {
              answer.then(take, reject);
              return;
            }
            answers[place] = answer;
            missingCount -= 1;
            if (missingCount === 0) resolve(answers);
          };
          queue.push({ item, keys: options.keysOf(item), signal, resolve: take, reject });
        }
        arrived();
      }),
  };
}
