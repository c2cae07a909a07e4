import { FairQueue } from './fair-queue.ts';
import { rateLimited } from './refusals.ts';

/** Reads under way at once: a few more than the connections that lists have. */
const AT_ONCE_MAX = 8;
/** So that one caller, however many connections it has, leaves places to the others. */
const AT_ONCE_PER_PRINCIPAL_MAX = 3;
/** Of those in the background: what somebody waits for finds a place and a connection. */
const BACKGROUND_AT_ONCE_MAX = 2;
const WAITING_PER_PRINCIPAL_MAX = 1_000;

export type ReadKind = 'asked' | 'background';

/**
 * Bounds how many reads run at once, of one principal and in all: lists, details, exports, and the
 * pages of event streams that are behind. Principals are served in turn. What safety rests on, and
 * what changes leases, does not go through here.
 */
export interface ReadLane {
  /** @throws {LeaseError} `request.rate_limited` when too many of this principal wait. */
  through<T>(principal: string, run: () => Promise<T>, kind?: ReadKind): Promise<T>;
  readonly waitingCount: number;
}

export function createReadLane(): ReadLane {
  return new Lane();
}

class Lane implements ReadLane {
  readonly #waiting: Record<ReadKind, FairQueue<() => void>> = {
    asked: new FairQueue(),
    background: new FairQueue(),
  };
  readonly #runningBy = new Map<string, number>();
  #running: Record<ReadKind, number> = { asked: 0, background: 0 };

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

  #wait(principal: string, kind: ReadKind): Promise<void> {
    const waiting = this.#waiting[kind];
    if (waiting.sizeOf(principal) >= WAITING_PER_PRINCIPAL_MAX) {
      throw rateLimited('reads', WAITING_PER_PRINCIPAL_MAX);
    }
    return new Promise((resolve) => {
      waiting.push(principal, () => {
        this.#take(principal, kind);
        resolve();
      });
    });
  }

  #hasPlace(kind: ReadKind): boolean {
    const { asked, background } = this.#running;
    if (asked + background >= AT_ONCE_MAX) return false;
    return kind === 'asked' || background < BACKGROUND_AT_ONCE_MAX;
  }

  #mayRun(principal: string): boolean {
    return (this.#runningBy.get(principal) ?? 0) < AT_ONCE_PER_PRINCIPAL_MAX;
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
