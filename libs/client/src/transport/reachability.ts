import type { TickingClock } from '@leasehold/service-kit/boot-clock';
import type { ConnectionFailures } from '@leasehold/service-kit/controllers';
import { OutcomeUnknownError, unreachableBy, type UnreachableError } from './call-errors.ts';

/** Whether there was a connection: a call that was never sent has no unknown outcome. */
export class Reachability {
  readonly #clock: TickingClock;
  readonly #hasConnection: boolean;
  readonly #failures: () => ConnectionFailures;
  #isOpen = false;
  #closedAtMs = -Infinity;

  /** `failures`: why there is no connection. */
  constructor(clock: TickingClock, transport: 'ws' | 'http', failures: () => ConnectionFailures) {
    this.#clock = clock;
    this.#failures = failures;
    this.#hasConnection = transport === 'ws';
  }

  changed(state: 'open' | 'closed'): void {
    if (this.#isOpen && state === 'closed') this.#closedAtMs = this.#clock.nowMs();
    this.#isOpen = state === 'open';
  }

  /**
   * Why nothing that was sent since that moment can have arrived; undefined if it can. Over HTTP always
   * undefined: the error of each call shows whether it was sent.
   */
  unreachableSince(momentMs: number): UnreachableError | undefined {
    const isReachable = !this.#hasConnection || this.#isOpen || this.#closedAtMs >= momentMs;
    return isReachable ? undefined : unreachableBy(this.#failures());
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
