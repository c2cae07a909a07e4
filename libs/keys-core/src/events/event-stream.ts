/**
 * The event stream: everything that happened to any lease, in order, each event once, live and
 * resumable. A reader at its end is fed from memory, see {@link EventTail}; one that is behind reads
 * pages of its own, at its own pace. A slow reader holds back only itself: nothing is read for it
 * before it asks for more.
 */
import { LeaseError } from '../kernel/errors.ts';
import { EVENT_KINDS } from '../kernel/face-types.ts';
import { untilCalled } from '../kernel/clock.ts';
import { databaseFailureOf } from '../postgres/database-errors.ts';
import type { Store } from '../postgres/open-store.ts';
import { pause } from '../postgres/kernel-store.ts';
import { eventCursor, listEvents, parseEventPlace } from './sql/event-list.ts';
import {
  type EventBounds,
  type EventFilter,
  type EventLag,
  FinalMark,
  matchesFilter,
  readEventBounds,
  readEventLag,
  readEventMark,
  readEventPage,
} from './sql/event-pages.ts';
import type { EventRow } from './sql/history.ts';

/** How long a reader that is behind waits after its page could not be read. */
const RETRY_MS = 1_000;
/** How long a new reader waits until a controller has noted that the database was restored. */
const NOTED_MS_MAX = 10_000;
const NOTED_POLL_MS = 250;
/** How long the head waits for transactions under way. */
const SETTLED_MS_MAX = 2_000;
/** The place before all events that are kept. */
const OLDEST = 'oldest';

/** Where the stream begins and ends at this moment. */
export interface EventHead {
  /** A reader that goes on from here gets every event that could not be read when this was answered. */
  readonly lastId: string;
  /** The first event that is kept; null for none. */
  readonly oldestId: string | null;
}

/** Runs a read when it is its turn. */
export type InTurn = <T>(read: () => Promise<T>) => Promise<T>;

const atOnce: InTurn = (read) => read();

export interface EventStream {
  /**
   * The ends of what a reader that is limited to these namespaces may see; null for no limit. Waits until no event
   * before the last one is still to come; if that takes long, `lastId` is an earlier event, or `oldest`.
   * @throws {LeaseError} `store.unavailable` while a restored database has not been noted.
   */
  head(limits: readonly string[] | null): Promise<EventHead>;
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
      /**
       * Without `afterId`: resolves only when no event before the first one is still to come. What is read
       * after that misses nothing that the stream does not deliver.
       */
      readonly isSettled?: boolean | undefined;
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
    async head(limits) {
      const own = limits === null ? undefined : await readOwnEnds(options, limits);
      const leave = tail.join();
      try {
        const bounds = await notedBounds(options, undefined);
        const ends = own ?? {
          lastId: eventCursor(bounds.epoch, bounds.lastId),
          oldestId: oldestOf(bounds),
        };
        const last = parseEventPlace(ends.lastId);
        if (last.at === 'oldest') return ends;
        const finalId = await finalIdOf(tail, bounds, { wantedId: last.id, store: options.store });
        if (finalId >= last.id) return ends;
        const isKept = own === undefined && finalId > bounds.removedThroughId;
        return { ...ends, lastId: isKept ? eventCursor(bounds.epoch, finalId) : OLDEST };
      } finally {
        leave();
      }
    },
    async open({ afterId, filter, inTurn = atOnce, isSettled = false }, signal) {
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
        // Without any event that is kept, all that come are delivered.
        const isAwaited = (): boolean => bounds.oldestId !== null && tail.finalId < start;
        while (isSettled && isAwaited() && !signal.aborted) await tail.nextLook(signal);
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

/** The first and the last of the events that such a reader may see. */
async function readOwnEnds(
  { store }: EventTailOptions,
  limits: readonly string[],
): Promise<EventHead> {
  const endOf = async (direction: 'asc' | 'desc'): Promise<string | undefined> =>
    (await listEvents(store.reads, { direction, limit: 1 }, limits)).items[0]?.id;
  const [oldestId, lastId] = await Promise.all([endOf('asc'), endOf('desc')]);
  return { lastId: lastId ?? OLDEST, oldestId: oldestId ?? null };
}

/**
 * Up to which event none is still to come: up to the wanted one, once the transactions under way have ended, or up to
 * an earlier one, while one of them lasts for longer than {@link SETTLED_MS_MAX}.
 */
async function finalIdOf(
  tail: EventTail,
  bounds: NotedBounds,
  { wantedId, store }: Pick<EventTailOptions, 'store'> & { readonly wantedId: bigint },
): Promise<bigint> {
  const endMs = store.clock.nowMs() + SETTLED_MS_MAX;
  const finalId = (): bigint => {
    const seenId = tail.epoch === bounds.epoch ? tail.finalId : 0n;
    return seenId > bounds.countedThroughId ? seenId : bounds.countedThroughId;
  };
  const isSettled = (): boolean => bounds.oldestId === null || finalId() >= wantedId;
  while (!isSettled() && store.clock.nowMs() < endMs) await tail.nextLook();
  return isSettled() ? wantedId : finalId();
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

// The newest part of the event stream, followed once per controller for all its readers. It queries the
// database only while somebody reads: soon again while there are new events, otherwise every
// {@link IDLE_MS}. NOTIFY is not used, because it would slow down every transition.

/** How long an event goes unseen at most once it is final, while nothing else happens. */
const IDLE_MS = 250;
/** While there are new events, or events are about to become final. The clock's tick makes it longer. */
const BUSY_MS = 10;
/** An event that is not final by then waits for an old transaction; the tail then queries less often. */
const HELD_BACK_MS = 1_000;
/** After a query that failed. */
const READ_AGAIN_MS = 1_000;
/** How many events are kept for readers that are slightly behind; others read pages of their own. */
export const TAIL_EVENTS_MAX = 4_000;
/** How many events a reader takes at a time. */
const EVENTS_PER_TAKE_MAX = 256;
/** The tail feeds every reader, also one that names kinds which others do not get. */
const EVERY_EVENT: EventFilter = { kinds: EVENT_KINDS, limits: null };

interface TailEvent {
  readonly id: bigint;
  /** Its `id` is the cursor. */
  readonly event: EventRow;
}

interface EventTailOptions {
  readonly store: Pick<Store, 'general' | 'reads' | 'clock'>;
  readonly onError: (error: unknown) => void;
}

class EventTail {
  readonly #options: EventTailOptions;
  readonly #waiting = new Set<() => void>();
  readonly #looking = new Set<() => void>();
  #readerCount = 0;
  #running: Promise<void> | undefined;
  #pausing = new AbortController();
  #isClosed = false;
  #version = 0;
  #epoch: number | undefined;
  #mark = new FinalMark();
  /** Everything after this one, up to {@link #throughId}, is in {@link #events}. */
  #fromId = 0n;
  #throughId = 0n;
  #events: TailEvent[] = [];
  /** Until events up to this one are final, memory stays empty: each reader reads earlier ones itself. */
  #startId: bigint | undefined;
  /** Which events a query found that were not final, and when; replaced once those are. */
  #heldBack: { readonly lastId: bigint; readonly sinceMs: number } | undefined;

  constructor(options: EventTailOptions) {
    this.#options = options;
  }

  get readerCount(): number {
    return this.#readerCount;
  }

  /** Which database epoch it follows; undefined before the first look. */
  get epoch(): number | undefined {
    return this.#epoch;
  }

  /** Events up to this one are final, and can be read. */
  get finalId(): bigint {
    return this.#mark.finalId;
  }

  /** For how long committed events have waited to become final, in milliseconds; 0 for none. */
  get heldBackMs(): number {
    if (this.#heldBack === undefined) return 0;
    return this.#options.store.clock.nowMs() - this.#heldBack.sinceMs;
  }

  /** Grows whenever there is something new; see {@link changedSince}. */
  get version(): number {
    return this.#version;
  }

  /** Follows the stream until the returned function is called; calling it again does nothing. */
  join(): () => void {
    this.#readerCount += 1;
    if (!this.#isClosed) this.#running ??= this.#run();
    let isIn = true;
    return () => {
      if (!isIn) return;
      isIn = false;
      this.#readerCount -= 1;
      if (this.#readerCount === 0) this.#pausing.abort();
    };
  }

  /** The next events after one; undefined where they are no longer, or not yet, in memory. */
  after(id: bigint): readonly TailEvent[] | undefined {
    if (this.#startId !== undefined || id < this.#fromId) return undefined;
    const begin = firstAfter(this.#events, id);
    return this.#events.slice(begin, begin + EVENTS_PER_TAKE_MAX);
  }

  /** Waits until there is something newer than a {@link version}, or the signal aborts. */
  async changedSince(version: number, signal: AbortSignal): Promise<void> {
    if (version === this.#version) await calledIn(this.#waiting, signal);
  }

  /**
   * Waits until the next query has ended, even if it failed, or the signal aborts; for a reader that joined.
   * @throws {LeaseError} `controller.stopping` when it was closed.
   */
  async nextLook(signal?: AbortSignal): Promise<void> {
    if (this.#isClosed) throw new LeaseError('controller.stopping');
    await calledIn(this.#looking, signal);
  }

  /** Stops querying; each reader ends with its signal. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#pausing.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    // Events from a time without readers are not kept in memory.
    this.#startId = undefined;
    this.#forget(this.#mark.finalId);
    let isFirst = true;
    while (this.#isWanted()) {
      let pauseMs = READ_AGAIN_MS;
      try {
        pauseMs = await this.#look(isFirst);
        isFirst = false;
      } catch (error) {
        this.#options.onError(error);
      }
      this.#endLook();
      if (this.#isWanted()) await this.#pause(pauseMs);
    }
    // Those that began to wait during the last pause.
    this.#endLook();
    this.#running = undefined;
    this.#heldBack = undefined;
  }

  #endLook(): void {
    for (const finish of [...this.#looking]) finish();
  }

  #isWanted(): boolean {
    return this.#readerCount > 0 && !this.#isClosed;
  }

  /** @returns after how many milliseconds to query again. */
  async #look(isFirst: boolean): Promise<number> {
    const reading = await readEventMark(this.#options.store.general, this.#mark.notedId);
    const { epoch, lastId } = reading;
    if (epoch === null) return IDLE_MS;
    const isNew = isFirst || epoch !== this.#epoch;
    if (epoch !== this.#epoch) {
      this.#mark = new FinalMark();
      this.#heldBack = undefined;
    }
    this.#epoch = epoch;
    const finalBefore = this.#mark.finalId;
    this.#mark.observe(reading);
    const isMoving = this.#mark.finalId > finalBefore;
    if (isNew) this.#startId = lastId;
    this.#skipToStart();
    if (isNew || isMoving) this.#tell();
    while (this.#throughId < this.#mark.finalId) if (!(await this.#readOn(epoch))) break;
    return this.#isHeldBack(lastId) || isMoving ? BUSY_MS : IDLE_MS;
  }

  /** Each reader reads the events that were there at the start by itself. */
  #skipToStart(): void {
    if (this.#startId === undefined) return;
    this.#forget(this.#mark.finalId);
    if (this.#mark.finalId >= this.#startId) this.#startId = undefined;
  }

  /** Whether events wait to become final, but not for long yet. */
  #isHeldBack(lastId: bigint): boolean {
    const { finalId } = this.#mark;
    if (lastId <= finalId) this.#heldBack = undefined;
    // Under load some event is never final yet, but not the same one for long.
    else if (this.#heldBack === undefined || this.#heldBack.lastId <= finalId) {
      this.#heldBack = { lastId, sinceMs: this.#options.store.clock.nowMs() };
    }
    return this.#heldBack !== undefined && this.heldBackMs < HELD_BACK_MS;
  }

  /** Takes the next events into memory. @returns false when the database has become another one. */
  async #readOn(epoch: number): Promise<boolean> {
    const { finalId } = this.#mark;
    const range = { afterId: this.#throughId, upToId: finalId };
    const page = await readEventPage(this.#options.store.general, range, EVERY_EVENT);
    if (page.epoch !== epoch) return false;
    if (page.removedThroughId > range.afterId) {
      // Events were removed before anybody read them: each reader finds that out at its own position.
      this.#forget(finalId);
    } else {
      for (const row of page.events) {
        const event = { ...row, id: eventCursor(epoch, row.id) };
        this.#events.push({ id: BigInt(row.id), event });
      }
      this.#throughId = page.throughId;
      const dropped = this.#events.splice(0, Math.max(0, this.#events.length - TAIL_EVENTS_MAX));
      this.#fromId = dropped.at(-1)?.id ?? this.#fromId;
    }
    this.#tell();
    return true;
  }

  /** Memory begins after this one. */
  #forget(id: bigint): void {
    this.#events = [];
    this.#fromId = id;
    this.#throughId = id;
  }

  #tell(): void {
    this.#version += 1;
    for (const finish of [...this.#waiting]) finish();
  }

  #pause(ms: number): Promise<void> {
    this.#pausing = new AbortController();
    return pause(this.#options.store, ms, this.#pausing.signal);
  }
}

/** Waits until one of these is called, or the signal aborts. */
function calledIn(waiting: Set<() => void>, signal?: AbortSignal): Promise<void> {
  return untilCalled((finish) => {
    waiting.add(finish);
    return () => waiting.delete(finish);
  }, signal);
}

/** Where the first event after an id is, in a list that is ordered by id. */
function firstAfter(events: readonly TailEvent[], id: bigint): number {
  let low = 0;
  let high = events.length;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if ((events[middle]?.id ?? 0n) > id) high = middle;
    else low = middle + 1;
  }
  return low;
}
