/**
 * What changed, for readers that only want to know what to read again: at most one message a second,
 * however many events there are.
 */
import type { EventChanges } from '../kernel/face-types.ts';
import { type Face, type Resource, resourceKey } from '../kernel/resource.ts';
import { untilCalled } from '../kernel/clock.ts';
import type { Store } from '../postgres/open-store.ts';
import { pause } from '../postgres/kernel-store.ts';

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
