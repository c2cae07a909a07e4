/** The part of `redlock` that is used here; its package does not say where its types are. */
declare module 'redlock' {
  import type { Redis } from 'ioredis';

  interface Lock {
    release(): Promise<unknown>;
  }

  interface Settings {
    /** How often a held lock is asked for again; -1: without end. */
    readonly retryCount: number;
  }

  class Redlock {
    constructor(clients: readonly Redis[]);
    acquire(resources: string[], durationMs: number, settings?: Partial<Settings>): Promise<Lock>;
  }

  export { Redlock as default };
}
