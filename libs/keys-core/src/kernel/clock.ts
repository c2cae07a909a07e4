/**
 * A monotonic clock of this machine that keeps running in suspend, in milliseconds from an arbitrary
 * start. Its readings are compared with each other only, never with another machine's.
 */
export interface Clock {
  /** The reading now. Never decreases while the machine is up. */
  nowMs(): number;
  /**
   * Calls `fn` once, as soon as the clock has reached `atMs`. Implemented by a tick, because timers
   * of the runtime stop in suspend. @returns a function that cancels it.
   */
  at(atMs: number, fn: () => void): () => void;
}

/** Where random numbers and ids come from; passed in so that tests are repeatable. */
export interface IdSource {
  /** A new UUID. */
  uuid(): string;
  /** `length` characters of `[a-z0-9]`. */
  alphanumeric(length: number): string;
  /** A number in `[0, 1)`. */
  random(): number;
}
