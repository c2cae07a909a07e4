import { FairQueue } from '@leasehold/service-kit/fair-queue';
import { rateLimited } from './rates.ts';

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
