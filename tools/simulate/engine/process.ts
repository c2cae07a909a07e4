import type { Event, Owner, World } from './world.ts';

/** 2026, by every wall clock at the start. */
export const EPOCH_MS = 1_767_225_600_000;

/** A machine: its clock since boot, which has a rate of its own, and its wall clock, which may be stepped. */
export class Machine {
  readonly rate: number;
  readonly #world: World;
  readonly #bootMs: number;
  /** By how much the wall clock was stepped. */
  stepMs = 0;

  constructor(world: World, rate: number, bootMs: number) {
    this.#world = world;
    this.rate = rate;
    this.#bootMs = bootMs;
  }

  /** The clock since boot. */
  nowMs(): number {
    return this.#bootMs + this.#world.nowMs * this.rate;
  }

  wallMs(): number {
    return EPOCH_MS + this.#world.nowMs * this.rate + this.stepMs;
  }
}

/** A process on a machine: it can be paused, killed and started again. */
export class Process implements Owner {
  readonly name: string;
  readonly machine: Machine;
  readonly #world: World;
  /** Grows when it is killed: what was due before is forgotten. */
  incarnation = 0;
  isUp = true;
  #kept: Event[] | undefined;

  constructor(world: World, name: string, machine: Machine) {
    this.#world = world;
    this.name = name;
    this.machine = machine;
  }

  get isPaused(): boolean {
    return this.#kept !== undefined;
  }

  /** Whether it does anything now. */
  get isRunning(): boolean {
    return this.isUp && !this.isPaused;
  }

  keep(event: Event): void {
    this.#kept?.push(event);
  }

  /** From now on nothing reaches it: everything waits, in order. */
  pause(): void {
    if (!this.isRunning) return;
    this.#world.trace(() => `${this.name} is paused`);
    this.#kept = [];
  }

  resume(): void {
    const kept = this.#kept;
    if (kept === undefined) return;
    this.#world.trace(() => `${this.name} continues`);
    this.#kept = undefined;
    for (const event of kept) {
      if (event.isCancelled || event.incarnation !== this.incarnation) continue;
      this.#world.in(0, this, () => {
        if (!event.isCancelled) event.happen();
      });
    }
  }

  pauseFor(ms: number): void {
    this.pause();
    this.#world.in(ms, undefined, () => this.resume());
  }

  kill(): void {
    if (!this.isUp) return;
    this.#world.trace(() => `${this.name} is killed`);
    this.isUp = false;
    this.incarnation += 1;
    this.#kept = undefined;
  }

  start(): void {
    this.#world.trace(() => `${this.name} starts`);
    this.isUp = true;
  }

  /** Runs a function of this process after a time by its machine's clock. */
  after(localMs: number, happen: () => void): Event {
    return this.#world.in(localMs / this.machine.rate, this, happen);
  }
}
