/**
 * Reads the outboxes of the drones whose sessions this controller carries: at a hint the one drone
 * that it names, and once every {@link POLL_MS} all of them, because a hint may be lost: one
 * statement for each {@link DRONES_PER_STATEMENT_MAX} drones.
 */
import { type Outbox, readOutboxes } from './sql/outbox.ts';
import type { Store } from '../postgres/open-store.ts';
import type { Logger } from '@leasehold/service-kit';

/** How long an action or a newer session goes unnoticed when its hint is lost. */
export const POLL_MS = 1_000;
const DRONES_PER_STATEMENT_MAX = 500;

export interface OutboxFeed {
  /**
   * Calls `fn` with the drone's outbox, soon and then whenever it may have changed.
   * @returns a function that ends it.
   */
  follow(droneId: string, fn: (outbox: Outbox) => void): () => void;
  /** Looks at once whether something is to be sent to the drone. */
  look(droneId: string): void;
  /** How many drones are followed. */
  readonly droneCount: number;
  close(): void;
}

type Follower = (outbox: Outbox) => void;

export function createOutboxFeed(
  store: Pick<Store, 'vital' | 'hints' | 'clock'>,
  log: Logger,
): OutboxFeed {
  const followers = new Map<string, Set<Follower>>();
  const wanted = new Set<string>();
  let isReading = false;

  function want(droneIds: Iterable<string>): void {
    for (const droneId of droneIds) wanted.add(droneId);
    void read();
  }

  async function read(): Promise<void> {
    if (isReading) return;
    isReading = true;
    try {
      while (wanted.size > 0) {
        const droneIds = [...wanted].slice(0, DRONES_PER_STATEMENT_MAX);
        for (const droneId of droneIds) wanted.delete(droneId);
        for (const outbox of await readOutboxes(store.vital, droneIds)) {
          for (const fn of followers.get(outbox.droneId) ?? []) fn(outbox);
        }
      }
    } catch (error) {
      log.warn({ err: error }, 'outboxes could not be read; trying again');
    } finally {
      isReading = false;
    }
  }

  function pollLater(): () => void {
    return store.clock.at(store.clock.nowMs() + POLL_MS, () => {
      want(followers.keys());
      stopPolling = pollLater();
    });
  }
  let stopPolling = pollLater();

  return {
    follow(droneId, fn) {
      const fns = followers.get(droneId) ?? new Set();
      fns.add(fn);
      followers.set(droneId, fns);
      const off = store.hints.on(`drone:${droneId}`, () => want([droneId]));
      want([droneId]);
      return () => {
        off();
        fns.delete(fn);
        if (fns.size === 0 && followers.get(droneId) === fns) followers.delete(droneId);
      };
    },
    look(droneId) {
      if (followers.has(droneId)) want([droneId]);
    },
    get droneCount() {
      return followers.size;
    },
    close() {
      stopPolling();
    },
  };
}
