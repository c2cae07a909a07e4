import type { Logger } from '@leasehold/service-kit';
import type { Clock } from '../kernel/clock.ts';
import type { DroneMessage } from '../kernel/drones.ts';
import { LeaseError } from '../kernel/errors.ts';
import type { Store } from '../postgres/open-store.ts';
import type { OutboxAction } from './fleet-views.ts';
import { openSession, type SessionRequest } from './sql/drone-sessions.ts';
import { type Outbox, readOutboxes } from './sql/outbox.ts';

/** An action that is not acknowledged is sent again after this. */
const RESEND_MS = 1_000;

export interface DroneSessionDeps {
  readonly store: Pick<Store, 'vital' | 'hints' | 'clock'>;
  readonly feed: OutboxFeed;
  readonly heartbeatMs: number;
}

/**
 * One session of a drone, from its number to its end. Yields the number first, then each action of
 * the outbox, again every second until it is acknowledged; the drone acts on each at most once. Questions are
 * sent once.
 *
 * @throws {LeaseError} `session.superseded` when a newer session of the drone has opened, here or
 * on another controller.
 */
export async function* droneSession(
  deps: DroneSessionDeps,
  request: SessionRequest,
  signal: AbortSignal,
): AsyncGenerator<DroneMessage> {
  const session = await openSession(deps.store.vital, request);
  // An older session of the drone, wherever it is, learns of this one now.
  deps.store.hints.notify(`drone:${request.droneId}`);
  yield { kind: 'session', session, heartbeatMs: deps.heartbeatMs };
  const resends = createResends(deps.store.clock);
  let asked = new Set<string>();
  const inbox = openInbox(deps.feed, request.droneId, signal);
  try {
    for (;;) {
      const outbox = await inbox.next();
      if (outbox === undefined) return;
      if (outbox.session > session) throw new LeaseError('session.superseded');
      for (const action of resends.dueOf(outbox.actions)) yield messageOf(action, session);
      const fresh = outbox.questions.filter(({ questionId }) => !asked.has(questionId));
      asked = new Set(outbox.questions.map(({ questionId }) => questionId));
      for (const question of fresh) yield { kind: 'read_log', session, ...question };
    }
  } finally {
    inbox.close();
  }
}

/** The payload was written by connect or terminate; the session adds what only it knows. */
function messageOf(action: OutboxAction, session: number): DroneMessage {
  return { ...action.payload, actionId: action.actionId, session } as unknown as DroneMessage;
}

/** Keeps the newest outbox only: a slow reader skips readings and does not fall behind. */
function openInbox(feed: OutboxFeed, droneId: string, signal: AbortSignal) {
  let newest: Outbox | undefined;
  let wake: (() => void) | undefined;
  const onAbort = (): void => wake?.();
  const unfollow = feed.follow(droneId, (outbox) => {
    newest = outbox;
    wake?.();
  });
  signal.addEventListener('abort', onAbort);
  return {
    /** The newest outbox that was not seen yet; undefined once the session is over. */
    async next(): Promise<Outbox | undefined> {
      while (newest === undefined && !signal.aborted) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      const outbox = signal.aborted ? undefined : newest;
      newest = undefined;
      return outbox;
    },
    close(): void {
      unfollow();
      signal.removeEventListener('abort', onAbort);
    },
  };
}

function createResends(clock: Clock) {
  let sentAtMs = new Map<string, number>();
  return {
    dueOf(actions: readonly OutboxAction[]): OutboxAction[] {
      const nowMs = clock.nowMs();
      const isDue = ({ actionId }: OutboxAction): boolean =>
        nowMs - (sentAtMs.get(actionId) ?? -Infinity) >= RESEND_MS;
      const due = actions.filter(isDue);
      // What is no longer in the outbox is forgotten.
      sentAtMs = new Map(
        actions.map((action) => [
          action.actionId,
          isDue(action) ? nowMs : (sentAtMs.get(action.actionId) ?? nowMs),
        ]),
      );
      return due;
    },
  };
}

// Reads the outboxes of the drones whose sessions this controller carries: at a hint the one drone
// that it names, and once every `POLL_MS` all of them, because a hint may be lost: one
// statement for each `DRONES_PER_STATEMENT_MAX` drones.

/** How long an action or a newer session goes unnoticed when its hint is lost. */
const POLL_MS = 1_000;
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
