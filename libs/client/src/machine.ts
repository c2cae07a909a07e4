/** What the library takes from its machine; passed in, so that tests control time and randomness. */
import type { TickingClock } from '@leasehold/service-kit/boot-clock';

export interface Machine {
  /** Monotonic, and goes on in suspend. */
  readonly clock: TickingClock;
  /** Never the same twice. Those of one process begin with the time, so that they are neighbours in an index. */
  uuid(): string;
  /** A number in `[0, 1)`. */
  random(): number;
}

/** Fulfilled when the clock has gone on by `ms`; rejected with the signal's reason when that aborts. */
export function pause({ clock }: Machine, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(signal.reason as Error);
      return;
    }
    const giveUp = (): void => {
      cancel();
      reject(signal?.reason as Error);
    };
    const cancel = clock.at(clock.nowMs() + ms, () => {
      signal?.removeEventListener('abort', giveUp);
      resolve();
    });
    signal?.addEventListener('abort', giveUp, { once: true });
  });
}
