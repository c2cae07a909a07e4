import { TICK_MS, type TickingClock } from '@leasehold/service-kit/boot-clock';

/** A clock that a test moves, with real tick intervals, and no ticks while the machine is asleep. */
export class ManualClock implements TickingClock {
  readonly #listeners = new Set<(nowMs: number) => void>();
  #nowMs: number;

  constructor(nowMs = 1_000_000) {
    this.#nowMs = nowMs;
  }

  /** How many timers wait for it: 0 means that none is left. */
  get waitingCount(): number {
    return this.#listeners.size;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  at(atMs: number, fn: () => void): () => void {
    const cancel = this.onTick((nowMs) => {
      if (nowMs < atMs) return;
      cancel();
      fn();
    });
    return cancel;
  }

  onTick(fn: (nowMs: number) => void): () => void {
    const listener = (nowMs: number): void => {
      fn(nowMs);
    };
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  /** Lets time pass, with a tick every {@link TICK_MS} and room for promises after each. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms;
    while (this.#nowMs < endMs) {
      this.#nowMs = Math.min(this.#nowMs + TICK_MS, endMs);
      this.#tick();
      await settled();
    }
  }

  /** Time passes while nothing runs: a stall, or a suspend. No tick comes until {@link advance}. */
  jump(ms: number): void {
    this.#nowMs += ms;
  }

  #tick(): void {
    for (const listener of [...this.#listeners]) {
      if (this.#listeners.has(listener)) listener(this.#nowMs);
    }
  }
}

/** Lets every promise that can settle do so. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}
