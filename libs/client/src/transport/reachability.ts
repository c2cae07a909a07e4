import type { TickingClock } from '@leasehold/service-kit/boot-clock';

/** Whether there was a connection: a call that was never sent has no unknown outcome. */
export class Reachability {
  readonly #clock: TickingClock;
  readonly #hasConnection: boolean;
  #isOpen = false;
  #closedAtMs = -Infinity;

  constructor(clock: TickingClock, transport: 'ws' | 'http') {
    this.#clock = clock;
    this.#hasConnection = transport === 'ws';
  }

  changed(state: 'open' | 'closed'): void {
    if (this.#isOpen && state === 'closed') this.#closedAtMs = this.#clock.nowMs();
    this.#isOpen = state === 'open';
  }

  /** Over HTTP always true: the error of each call shows whether it was sent. */
  wasReachableSince(momentMs: number): boolean {
    return !this.#hasConnection || this.#isOpen || this.#closedAtMs >= momentMs;
  }
}
