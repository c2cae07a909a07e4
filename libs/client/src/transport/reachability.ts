import type { TickingClock } from '@leasehold/service-kit/boot-clock';
import type { ConnectionFailures } from '@leasehold/service-kit/controllers';
import { OutcomeUnknownError, unreachableBy, type UnreachableError } from './errors.ts';

/** How long a call waits for a connection to a controller that has answered before. */
const CONNECTION_MS_MAX = 10_000;

export interface ReachabilityOptions {
  readonly clock: TickingClock;
  readonly transport: 'ws' | 'http';
  /** Why there is no connection. */
  readonly failures: () => ConnectionFailures;
  /** How long a call may wait for the first connection. Milliseconds. */
  readonly connectMs: number;
  /** The addresses, for messages. */
  readonly url: string;
}

/** Whether there was a connection: a call that was never sent has no unknown outcome. */
export class Reachability {
  readonly #clock: TickingClock;
  readonly #hasConnection: boolean;
  readonly #failures: () => ConnectionFailures;
  readonly #connectMs: number;
  readonly #url: string;
  #hasEverAnswered = false;
  #isOpen = false;
  #closedAtMs = -Infinity;

  constructor({ clock, transport, failures, connectMs, url }: ReachabilityOptions) {
    this.#clock = clock;
    this.#failures = failures;
    this.#hasConnection = transport === 'ws';
    this.#connectMs = connectMs;
    this.#url = url;
  }

  changed(state: 'open' | 'closed'): void {
    if (this.#isOpen && state === 'closed') this.#closedAtMs = this.#clock.nowMs();
    this.#isOpen = state === 'open';
    if (this.#isOpen) this.answered();
  }

  /** Somebody is there. */
  answered(): void {
    this.#hasEverAnswered = true;
  }

  /** How long a call may wait for a connection: not for long where nobody was ever there. Milliseconds. */
  patienceMs(): number {
    return this.#hasEverAnswered ? CONNECTION_MS_MAX : this.#connectMs;
  }

  /** Whether a call that began then, and failed, is not tried again, because nobody was ever there. */
  isHopeless(momentMs: number): boolean {
    // A third: the pause before the next try, and that try, take time too.
    const isEarly = this.#clock.nowMs() - momentMs < this.#connectMs / 3;
    return !this.#hasEverAnswered && !isEarly;
  }

  /**
   * Why nothing that was sent since that moment can have arrived; undefined if it can. Over HTTP always
   * undefined: the error of each call shows whether it was sent.
   */
  unreachableSince(momentMs: number): UnreachableError | undefined {
    const isReachable = !this.#hasConnection || this.#isOpen || this.#closedAtMs >= momentMs;
    return isReachable ? undefined : unreachableBy(this.#failures(), this.#url);
  }

  /** Makes a call. One that was never sent has no unknown outcome, and says why. */
  async explain<T>(call: () => Promise<T>): Promise<T> {
    const beganAtMs = this.#clock.nowMs();
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof OutcomeUnknownError)) throw error;
      throw this.unreachableSince(beganAtMs) ?? error;
    }
  }
}
