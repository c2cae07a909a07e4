/**
 * A world with a time of its own. Everything that happens is an event at a moment; after each event all
 * promises that can settle do, so that code which awaits runs as if it were alone.
 */
import TinyQueue from 'tinyqueue';
import type { PlantName } from '../plants.ts';
import type { Random } from './random.ts';

/** What events belong to: a process, which may be paused or end. */
export interface Owner {
  /** Grows when it ends. */
  readonly incarnation: number;
  readonly isPaused: boolean;
  /** Keeps an event until it continues. */
  keep(event: Event): void;
  /** Has something happen after a time by its own clock. */
  after(localMs: number, happen: () => void): Event;
}

/** Something that will happen. It belongs to a process as it is now: one that was restarted forgets it. */
export interface Event {
  readonly atMs: number;
  readonly order: number;
  readonly process: Owner | undefined;
  readonly incarnation: number;
  readonly happen: () => void;
  isCancelled: boolean;
}

/** A promise of Leasehold that was broken. */
export class Violation extends Error {
  override readonly name = 'Violation';
  readonly promise: string;

  constructor(promise: string, detail: string) {
    super(`${promise}: ${detail}`);
    this.promise = promise;
  }
}

export interface WorldOptions {
  readonly random: Random;
  readonly plant: PlantName | undefined;
  /** Called with each line of the trace; without it nothing is traced. */
  readonly onTrace?: ((line: string) => void) | undefined;
}

export class World {
  readonly random: Random;
  readonly #plant: PlantName | undefined;
  readonly #onTrace: ((line: string) => void) | undefined;
  readonly #events = new TinyQueue<Event>([], (a, b) => a.atMs - b.atMs || a.order - b.order);
  #nowMs = 0;
  #order = 0;
  #violation: Violation | undefined;
  /** The process that runs: timers that its code sets are its own. */
  current: Owner | undefined;
  /** How many grants were made, for the figures. */
  grantCount = 0;
  /** Whether any code of this world awaits. */
  hasPromises = true;
  /** How many immediates of the code are due: see `timers.ts`. */
  immediateCount = 0;

  constructor({ random, plant, onTrace }: WorldOptions) {
    this.random = random;
    this.#plant = plant;
    this.#onTrace = onTrace;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  has(plant: PlantName): boolean {
    return this.#plant === plant;
  }

  /** The text is made only when somebody reads it. */
  trace(line: () => string): void {
    this.#onTrace?.(`${this.#nowMs.toFixed(1).padStart(9)} ms  ${line()}`);
  }

  /** Notes the first broken promise; code under test cannot catch it. */
  fail(promise: string, detail: string): void {
    if (this.#violation !== undefined) return;
    this.#violation = new Violation(promise, detail);
    this.trace(() => `VIOLATION ${promise}: ${detail}`);
  }

  in(delayMs: number, process: Owner | undefined, happen: () => void): Event {
    const event: Event = {
      atMs: this.#nowMs + Math.max(0, delayMs),
      order: (this.#order += 1),
      process,
      incarnation: process?.incarnation ?? 0,
      happen,
      isCancelled: false,
    };
    this.#events.push(event);
    return event;
  }

  /** A promise that this process gets after a while; never, if it ends before. */
  sleep(delayMs: number, process: Owner): Promise<void> {
    return new Promise((resolve) => {
      this.in(delayMs, process, resolve);
    });
  }

  /** Lets everything up to this moment happen. @throws {Violation} the first one. */
  async run(untilMs: number): Promise<void> {
    for (let next = this.#events.peek(); next !== undefined && next.atMs <= untilMs;) {
      this.#events.pop();
      this.#nowMs = next.atMs;
      const { process } = next;
      if (process?.isPaused === true) process.keep(next);
      else if (!next.isCancelled && next.incarnation === (process?.incarnation ?? 0)) {
        this.current = process;
        next.happen();
        await this.#settle();
      }
      if (this.#violation !== undefined) throw this.#violation;
      next = this.#events.peek();
    }
    this.current = undefined;
    this.#nowMs = untilMs;
  }

  async #settle(): Promise<void> {
    if (!this.hasPromises) return;
    do {
      await new Promise((resolve) => {
        IMMEDIATE(resolve);
      });
    } while (this.immediateCount > 0);
  }
}

/** The runtime's own, whatever stands in its place during a run. */
const IMMEDIATE = setImmediate;
