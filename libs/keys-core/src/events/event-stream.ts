/**
 * The event stream: everything that happened to any lease, in order, each event once, live and
 * resumable. A reader at its end is fed from memory, see {@link EventTail}; one that is behind reads
 * pages of its own, at its own pace. A slow reader holds back only itself: nothing is read for it
 * before it asks for more.
 */
import { LeaseError } from '../kernel/errors/index.ts';
import { databaseFailureOf } from '../postgres/errors/database-errors.ts';
import { eventCursor, parseEventPlace } from './event-cursor.ts';
import { matchesFilter, type EventFilter } from './sql/event-filter.ts';
import { readEventLag, type EventLag } from './sql/event-lag.ts';
import { readEventBounds, readEventPage, type EventBounds } from './sql/event-pages.ts';
import { pause } from '../postgres/statements/timed.ts';
import { EventTail, type EventTailOptions } from './event-tail.ts';
import type { EventRow } from './sql/history.ts';

/** How long a reader that is behind waits after its page could not be read. */
const RETRY_MS = 1_000;
/** How long a new reader waits until a controller has noted that the database was restored. */
const NOTED_MS_MAX = 10_000;
const NOTED_POLL_MS = 250;

/** Where the stream begins and ends at this moment. */
export interface EventHead {
  /** A reader that goes on from here gets everything that begins from now on. */
  readonly lastId: string;
  /** The first event that is kept; null for none. */
  readonly oldestId: string | null;
}

/** Runs a read when it is its turn. */
export type InTurn = <T>(read: () => Promise<T>) => Promise<T>;

const atOnce: InTurn = (read) => read();

export interface EventStream {
  /** @throws {LeaseError} `store.unavailable` while a restored database has not been noted. */
  head(): Promise<EventHead>;
  /**
   * The events after `afterId` that pass the filter, the past ones first, in the order of their ids,
   * each once; ends when the signal aborts. Without `afterId`, everything that begins after this call
   * has returned. An event's `id` resumes the stream after it.
   * @throws {LeaseError} `request.invalid`; `events.compacted` when events after `afterId` have been
   * removed; `events.other_epoch` when it belongs to another database epoch. The stream itself also
   * throws the last two, as soon as they apply.
   */
  open(
    from: {
      readonly afterId?: string | undefined;
      readonly filter: EventFilter;
      /** Reads a page in its turn, for a reader that is behind; at once when left out. */
      readonly inTurn?: InTurn | undefined;
    },
    signal: AbortSignal,
  ): Promise<AsyncIterable<EventRow>>;
  /** How far behind the stream is, and which transaction holds it back. */
  lag(): Promise<EventLag>;
  readonly readerCount: number;
  /** Stops querying; each reader ends with its signal. */
  close(): Promise<void>;
}

export function createEventStream(options: EventTailOptions): EventStream {
  const tail = new EventTail(options);
  const { general } = options.store;
  return {
    async head() {
      const bounds = await notedBounds(options, undefined);
      return {
        lastId: eventCursor(bounds.epoch, bounds.lastId),
        oldestId: oldestOf(bounds),
      };
    },
    async open({ afterId, filter, inTurn = atOnce }, signal) {
      const leave = tail.join();
      // Needed when nobody ever asks for the first event.
      signal.addEventListener('abort', leave, { once: true });
      if (signal.aborted) leave();
      try {
        let bounds = await notedBounds(options, signal);
        while (tail.epoch !== bounds.epoch && !signal.aborted) {
          await tail.nextLook(signal);
          bounds = await notedBounds(options, signal);
        }
        const { epoch } = bounds;
        const start = startOf(afterId, bounds, filter);
        return new Reader({ options, tail, filter, epoch, signal, inTurn }).read(start, leave);
      } catch (error) {
        leave();
        throw error;
      }
    },
    async lag() {
      const lag = await readEventLag(general);
      return { ...lag, lagMs: Math.max(lag.lagMs, tail.heldBackMs) };
    },
    get readerCount() {
      return tail.readerCount;
    },
    close: () => tail.close(),
  };
}

type NotedBounds = EventBounds & { readonly epoch: number };

/** Waits until a controller has noted the database epoch, if the database has become another one. */
async function notedBounds({ store }: EventTailOptions, signal: AbortSignal | undefined) {
  const endMs = store.clock.nowMs() + NOTED_MS_MAX;
  for (;;) {
    const { epoch, ...bounds } = await readEventBounds(store.general);
    if (epoch !== null) return { ...bounds, epoch };
    if (signal?.aborted === true || store.clock.nowMs() >= endMs) {
      throw new LeaseError(
        'store.unavailable',
        'The database was restored; try again in a moment.',
      );
    }
    await pause(store, NOTED_POLL_MS, signal);
  }
}

/** After which id a reader begins. */
function startOf(afterId: string | undefined, bounds: NotedBounds, filter: EventFilter): bigint {
  if (afterId === undefined) return bounds.lastId;
  const place = parseEventPlace(afterId);
  if (place.at === 'oldest') return bounds.removedThroughId;
  // A number that was never given here is from a lost history.
  if ((place.epoch ?? bounds.epoch) !== bounds.epoch || place.id > bounds.lastId) {
    throw otherEpoch(bounds, filter);
  }
  if (place.id < bounds.removedThroughId) throw compacted(bounds, filter);
  return place.id;
}

function oldestOf(bounds: NotedBounds): string | null {
  return bounds.oldestId === null ? null : eventCursor(bounds.epoch, bounds.oldestId);
}

function compacted(bounds: NotedBounds, { limits }: EventFilter): LeaseError {
  return new LeaseError('events.compacted', undefined, {
    details: limits === null ? { oldestId: oldestOf(bounds) } : {},
  });
}

/** A reader that is limited to namespaces is not told how many events there are of all. */
function otherEpoch(bounds: NotedBounds, { limits }: EventFilter): LeaseError {
  const lastId = eventCursor(bounds.epoch, bounds.lastId);
  return new LeaseError('events.other_epoch', undefined, {
    details: limits === null ? { oldestId: oldestOf(bounds), lastId } : {},
  });
}

interface ReaderParts {
  readonly options: EventTailOptions;
  readonly tail: EventTail;
  readonly filter: EventFilter;
  readonly epoch: number;
  readonly signal: AbortSignal;
  readonly inTurn: InTurn;
}

/** One reader of the stream. */
class Reader {
  readonly #parts: ReaderParts;

  constructor(parts: ReaderParts) {
    this.#parts = parts;
  }

  async *read(startId: bigint, leave: () => void): AsyncGenerator<EventRow, void> {
    const { tail, filter, signal } = this.#parts;
    let position = startId;
    try {
      while (!signal.aborted) {
        await this.#assertSameLife();
        const { version } = tail;
        const events = tail.after(position);
        if (events === undefined && position < tail.finalId) {
          const page = await this.#page(position);
          yield* page.events;
          position = page.throughId;
        } else if (events === undefined || events.length === 0) {
          await tail.changedSince(version, signal);
        } else {
          for (const { id, event } of events) {
            position = id;
            if (matchesFilter(event, filter)) yield event;
          }
        }
      }
    } finally {
      leave();
    }
  }

  /** What a reader that is behind reads next. */
  async #page(afterId: bigint): Promise<{ events: readonly EventRow[]; throughId: bigint }> {
    const { options, tail, filter, epoch, signal, inTurn } = this.#parts;
    try {
      const page = await inTurn(() =>
        readEventPage(options.store.reads, { afterId, upToId: tail.finalId }, filter),
      );
      if (page.epoch === epoch) {
        if (page.removedThroughId > afterId) {
          throw compacted(await notedBounds(options, signal), filter);
        }
        return {
          events: page.events.map((event) => ({ ...event, id: eventCursor(epoch, event.id) })),
          throughId: page.throughId,
        };
      }
    } catch (error) {
      if (!isPassing(error)) throw error;
      options.onError(error);
    }
    // A database that is unreachable, or was restored, is queried again.
    await pause(options.store, RETRY_MS, signal);
    return { events: [], throughId: afterId };
  }

  async #assertSameLife(): Promise<void> {
    const { tail, epoch, options, signal, filter } = this.#parts;
    if (tail.epoch !== epoch) {
      throw otherEpoch(await notedBounds(options, signal), filter);
    }
  }
}

/** Whether reading a page failed in a way that may pass. */
function isPassing(error: unknown): boolean {
  return error instanceof LeaseError ? error.retryable : databaseFailureOf(error) !== 'other';
}
