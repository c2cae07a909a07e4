import { createTestDatabase } from '@leasehold/testing';
import type { Clock } from '../kernel/clock.ts';
import { openKernel, type Kernel } from './kernel-fixture.ts';
import { freezeClock } from './shifted-clock.ts';
import type { StoreOptions } from '../postgres/open-store.ts';

/** A database and machines whose time stands still except for what the test lets pass. */
export interface PassingTime {
  readonly databaseUrl: string;
  /** The clock of every machine. Its timers run in real time. */
  readonly clock: Clock;
  /** Lets time pass, for the database and for the machines. */
  pass(ms: number): Promise<void>;
  /** Steps the clock of the database. */
  step(ms: number): Promise<void>;
  /** The local clocks go on, as the database's has already: what runs in between sees it ahead. */
  follow(ms: number): void;
  /** A kernel that watches the database's clock, as a process which starts now does. */
  open(options?: Partial<StoreOptions>): Promise<Kernel>;
}

const START_MS = Date.UTC(2030, 0, 1);
/** The uptime of the machines at the start. */
const UPTIME_MS = 86_400_000;
/** A watch reads the clock about once a second; as seldom as this is enough for it. */
const LOOK_EVERY_MS = 60_000;

export async function passingTime(): Promise<PassingTime> {
  const { url: databaseUrl } = await createTestDatabase();
  const setClock = await freezeClock(databaseUrl);
  let databaseMs = START_MS;
  let localMs = UPTIME_MS;
  await setClock(databaseMs);
  const clock: Clock = {
    nowMs: () => localMs,
    at(atMs, fn) {
      const timer = setTimeout(fn, Math.max(0, atMs - localMs));
      return () => {
        clearTimeout(timer);
      };
    },
  };
  return {
    databaseUrl,
    clock,
    async pass(ms) {
      databaseMs += ms;
      localMs += ms;
      await setClock(databaseMs);
    },
    async step(ms) {
      databaseMs += ms;
      await setClock(databaseMs);
    },
    follow(ms) {
      localMs += ms;
    },
    open: (options) => openKernel({ databaseUrl, clock, clockWatch: undefined, ...options }),
  };
}

/** Lets time pass while these processes keep reading the database's clock. */
export async function passWatched(
  time: PassingTime,
  ms: number,
  ...kernels: readonly Kernel[]
): Promise<void> {
  for (let leftMs = ms; leftMs > 0; leftMs -= LOOK_EVERY_MS) {
    await time.pass(Math.min(leftMs, LOOK_EVERY_MS));
    for (const { store } of kernels) await store.witness.look();
  }
}
