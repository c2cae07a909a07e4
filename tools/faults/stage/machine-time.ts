/** CLOCK_MONOTONIC in milliseconds: the clock that the witnesses write, the same in all processes. */
export function machineMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

const LOOK_MS = 10;
/** What a turn of this process may take: a look that is later than this was held up. */
const LATE_MS = 30;
/** More than any test asks about: the oldest are forgotten. */
const STALLS_MAX = 10_000;

/**
 * Notes when the machine stood still, as far as this process can tell: it was to look, and got no turn. Whatever a
 * test times was held up as well.
 */
export class StallWatch {
  readonly #stalls: { readonly fromMs: number; readonly toMs: number }[] = [];
  #lookedAtMs = machineMs();
  readonly #timer = setInterval(() => {
    this.#look();
  }, LOOK_MS).unref();

  #look(): void {
    const fromMs = this.#lookedAtMs + LOOK_MS;
    this.#lookedAtMs = machineMs();
    if (this.#lookedAtMs - fromMs <= LATE_MS) return;
    this.#stalls.push({ fromMs, toMs: this.#lookedAtMs });
    if (this.#stalls.length > STALLS_MAX) this.#stalls.shift();
  }

  /** For how long of this time. */
  stoodStillMs(fromMs: number, toMs: number): number {
    this.#look();
    return this.#stalls
      .map((stall) => Math.min(stall.toMs, toMs) - Math.max(stall.fromMs, fromMs))
      .reduce((sum, ms) => sum + Math.max(0, ms), 0);
  }

  end(): void {
    clearInterval(this.#timer);
  }
}
