/** Leases and locks of any service, as one caller after another uses them. */

/** What a caller holds. */
export interface Held {
  release(): Promise<unknown>;
}

export interface LockService {
  readonly name: string;
  /** Takes what nobody holds, in the quickest way that the service's client offers. */
  take(key: string): Promise<Held>;
  /** Waits for what others hold, in the way that the service's client intends. */
  wait(key: string): Promise<Held>;
}

/** Longer than any measurement takes: no lease is ever lost here. */
export const HOLD_TTL_MS = 30_000;
