/** Leases and locks of whatever make, as one caller after another uses them. */

/** What a caller holds. */
export interface Held {
  release(): Promise<unknown>;
}

export interface LockService {
  readonly name: string;
  /** Takes what nobody holds, in the quickest way that the service's client offers. */
  take(key: string): Promise<Held>;
  /** Waits for what others hold, in the way that the service's client means it to be waited for. */
  wait(key: string): Promise<Held>;
}

/** As long as no measurement takes: what is held is never lost here. */
export const HOLD_TTL_MS = 30_000;
