/** The service of this slice, and what apps and other slices may use of it. */
import { untilCalled } from '../kernel/clock.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { EventChanges } from '../kernel/face-types.ts';
import { type Face, type Resource, resourceKey } from '../kernel/resource.ts';
import { pause } from '../postgres/kernel-store.ts';
import type { Store } from '../postgres/open-store.ts';
import type { EventStream } from './event-stream.ts';
import { type Holding, readHoldings } from './sql/history.ts';

export {
  countEvents,
  type EventCountInput,
  eventCursor,
  type EventListInput,
  listEvents,
} from './sql/event-list.ts';
export {
  EPOCH,
  type EventCulprit,
  type EventFilter,
  type EventLag,
  FinalMark,
  readEventMark,
} from './sql/event-pages.ts';
export {
  createEventStream,
  type EventHead,
  type EventStream,
  type InTurn,
} from './event-stream.ts';
export {
  type EventRow,
  type HistoryRow,
  type Holding,
  holderAt,
  holdersAt,
  mayHaveSeveral,
  readFactsAround,
  readGrantsAround,
  readHistory,
} from './sql/history.ts';

/**
 * What changed, for readers that only want to know what to read again: at most one message a second,
 * however many events there are.
 */

/** The least time between two messages. */
export const CHANGES_EVERY_MS = 1_000;
/** What happens together, such as a grant and its backend, is in one message. */
const GATHER_MS = 50;
/** A message names at most so many resources of each face: one of 200 is about 12 KB. */
export const CHANGES_NAMED_MAX = 200;

/**
 * The changes that a stream of events makes. The events are read as they come, however slow the reader is:
 * what waits for it is bounded. Fails as the stream does. Ends with the stream or the signal.
 * @param leave ends the stream when the reader has gone.
 */
export async function* changesOf(
  events: AsyncIterable<Resource>,
  { store, signal, leave }: ChangesOptions,
): AsyncGenerator<EventChanges, void> {
  const gathered = new GatheredChanges();
  const state = { wake: (): void => undefined, isOver: false };
  const reading = (async () => {
    try {
      for await (const event of events) {
        gathered.add(event);
        state.wake();
      }
    } finally {
      state.isOver = true;
      state.wake();
    }
  })();
  // It is thrown below, after what came before it was told.
  reading.catch(() => undefined);
  const untilNews = (): Promise<void> =>
    untilCalled((finish) => {
      state.wake = finish;
      return () => (state.wake = () => undefined);
    }, signal);
  try {
    while (!signal.aborted) {
      if (gathered.isEmpty && !state.isOver) await untilNews();
      await pause(store, GATHER_MS, signal);
      if (!gathered.isEmpty) yield gathered.take();
      if (state.isOver && gathered.isEmpty) {
        await reading;
        return;
      }
      await pause(store, CHANGES_EVERY_MS - GATHER_MS, signal);
    }
  } finally {
    leave();
  }
}

interface ChangesOptions {
  readonly store: Pick<Store, 'clock'>;
  readonly signal: AbortSignal;
  readonly leave: () => void;
}

/** What has changed since the last message. */
class GatheredChanges {
  #eventCount = 0;
  #named = new Map<Face, Map<string, Resource>>();
  #many = new Set<Face>();

  get isEmpty(): boolean {
    return this.#eventCount === 0;
  }

  add(resource: Resource): void {
    const { face, namespace, name } = resource;
    this.#eventCount += 1;
    if (this.#many.has(face)) return;
    const named = this.#named.get(face) ?? new Map<string, Resource>();
    this.#named.set(face, named);
    named.set(resourceKey(resource), { face, namespace, name });
    if (named.size <= CHANGES_NAMED_MAX) return;
    this.#named.delete(face);
    this.#many.add(face);
  }

  take(): EventChanges {
    const changes = {
      eventCount: this.#eventCount,
      resources: [...this.#named.values()].flatMap((named) => [...named.values()]),
      manyOf: [...this.#many],
    };
    this.#eventCount = 0;
    this.#named = new Map();
    this.#many = new Set();
    return changes;
  }
}

/**
 * Who holds a resource, for those who want to know it at once: leaders and their followers. One reader of
 * the event stream tells which resources have changed; these are read again, each once for all its
 * observers, however many events there were. Nothing is read while nothing changes, and nothing at all
 * while nobody observes.
 */

/** After a read that failed, and before the stream is opened again. */
const RETRY_MS = 1_000;
const RESOURCES_PER_READ_MAX = 200;

/** The state of a resource. */
export interface Observed {
  /** Null while nobody holds it. */
  readonly holding: Holding | null;
}

export interface Observing {
  /**
   * The present state, then each change, until the signal aborts. A reader that takes its time misses states,
   * but never the newest.
   */
  observe(resource: Resource, signal: AbortSignal): AsyncIterable<Observed>;
  /** How many resources somebody observes. */
  readonly resourceCount: number;
}

interface ObservingDeps {
  readonly store: Pick<Store, 'general' | 'clock'>;
  readonly stream: Pick<EventStream, 'open'>;
  /** Told of what failed and is tried again. */
  readonly onError: (error: unknown) => void;
}

/** A resource that somebody observes. */
interface Watched {
  readonly resource: Resource;
  observerCount: number;
  /** Undefined before the first read. */
  state: Observed | undefined;
  /** Grows with each state. */
  version: number;
  readonly waiting: Set<() => void>;
}

export function createObserving(deps: ObservingDeps): Observing {
  return new Observers(deps);
}

class Observers implements Observing {
  readonly #deps: ObservingDeps;
  readonly #watched = new Map<string, Watched>();
  /** The keys of those that have changed since they were read. */
  readonly #changed = new Set<string>();
  #isReading = false;
  #following: AbortController | undefined;

  constructor(deps: ObservingDeps) {
    this.#deps = deps;
  }

  get resourceCount(): number {
    return this.#watched.size;
  }

  async *observe(resource: Resource, signal: AbortSignal): AsyncGenerator<Observed, void> {
    const watched = this.#join(resource);
    let seenVersion = 0;
    try {
      while (!signal.aborted) {
        const { state, version, waiting } = watched;
        if (state !== undefined && version > seenVersion) {
          seenVersion = version;
          yield state;
        } else {
          await untilCalled((finish) => {
            waiting.add(finish);
            return () => waiting.delete(finish);
          }, signal);
        }
      }
    } finally {
      this.#leave(watched);
    }
  }

  #join(resource: Resource): Watched {
    const key = resourceKey(resource);
    let watched = this.#watched.get(key);
    if (watched === undefined) {
      watched = {
        resource,
        observerCount: 0,
        state: undefined,
        version: 0,
        waiting: new Set(),
      };
      // Before it is read: what changes after the read is told by an event.
      this.#watched.set(key, watched);
      this.#note(key);
    }
    watched.observerCount += 1;
    if (this.#following === undefined) {
      this.#following = new AbortController();
      void this.#follow(this.#following.signal);
    }
    return watched;
  }

  #leave(watched: Watched): void {
    watched.observerCount -= 1;
    if (watched.observerCount === 0) this.#watched.delete(resourceKey(watched.resource));
    if (this.#watched.size > 0) return;
    this.#following?.abort();
    this.#following = undefined;
  }

  /** Reads everything again whenever the stream begins: what had changed before is in no event. */
  async #follow(signal: AbortSignal): Promise<void> {
    const { store, stream, onError } = this.#deps;
    while (!signal.aborted) {
      try {
        const from = { filter: { limits: null }, isSettled: true } as const;
        const events = await stream.open(from, signal);
        for (const key of this.#watched.keys()) this.#note(key);
        for await (const event of events) this.#note(resourceKey(event));
      } catch (error) {
        if (!isOfStream(error)) onError(error);
        await pause(store, RETRY_MS, signal);
      }
    }
  }

  #note(key: string): void {
    if (!this.#watched.has(key)) return;
    this.#changed.add(key);
    if (!this.#isReading) void this.#read();
  }

  async #read(): Promise<void> {
    const { store, onError } = this.#deps;
    this.#isReading = true;
    while (this.#changed.size > 0) {
      const some = this.#take();
      try {
        const resources = some.map(({ resource }) => resource);
        const holdings = await readHoldings(store.general, resources);
        for (const [place, watched] of some.entries()) show(watched, holdings[place] ?? null);
      } catch (error) {
        onError(error);
        await pause(store, RETRY_MS, this.#following?.signal);
        for (const { resource } of some) this.#changed.add(resourceKey(resource));
      }
    }
    this.#isReading = false;
  }

  /** The next ones to be read. Those that nobody observes any more are left out. */
  #take(): Watched[] {
    const some: Watched[] = [];
    for (const key of this.#changed) {
      if (some.length >= RESOURCES_PER_READ_MAX) break;
      this.#changed.delete(key);
      const watched = this.#watched.get(key);
      if (watched !== undefined) some.push(watched);
    }
    return some;
  }
}

/** Whether the stream has ended for its readers, who begin again. */
function isOfStream(error: unknown): boolean {
  const code = error instanceof LeaseError ? error.code : undefined;
  return code === 'events.compacted' || code === 'events.other_epoch';
}

function show(watched: Watched, holding: Holding | null): void {
  const { state } = watched;
  if (state !== undefined && JSON.stringify(state.holding) === JSON.stringify(holding)) return;
  watched.state = { holding };
  watched.version += 1;
  for (const finish of watched.waiting) finish();
}
