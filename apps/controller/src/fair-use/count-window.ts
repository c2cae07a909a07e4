/** Counts within windows of one length. A window begins with the first count after the last one ended. */
export class CountWindow {
  readonly #lengthMs: number;
  readonly #nowMs: () => number;
  #endMs = 0;
  #count = 0;

  /** @param nowMs a monotonic reading in milliseconds. */
  constructor(lengthMs: number, nowMs: () => number) {
    this.#lengthMs = lengthMs;
    this.#nowMs = nowMs;
  }

  /** What was counted in this window. */
  get count(): number {
    return this.#nowMs() < this.#endMs ? this.#count : 0;
  }

  /** How long this window still lasts; 0 when none has begun. */
  get remainingMs(): number {
    return Math.max(0, this.#endMs - this.#nowMs());
  }

  /** @returns a function that takes the count back, from the window that it was counted in. */
  add(count: number): () => void {
    const nowMs = this.#nowMs();
    if (nowMs >= this.#endMs) {
      this.#endMs = nowMs + this.#lengthMs;
      this.#count = 0;
    }
    this.#count += count;
    const countedUntilMs = this.#endMs;
    return () => {
      if (this.#endMs === countedUntilMs) this.#count -= count;
    };
  }
}
