import type { OwnedProcess } from '../../../apps/drone/src/warden/warden.ts';
import type { StartRequest } from '../../../apps/drone/src/warden/protocol.ts';
import type { Random } from '../engine/random.ts';
import type { World } from '../engine/world.ts';

/** A SIGKILL has ended everything within this. */
const KILL_MS_MAX = 30;

/** A backend's processes: they stop after a while, or ignore the signal, and end when they are killed. */
export class BackendProcess implements OwnedProcess {
  readonly pid = 1;
  readonly request: StartRequest;
  readonly keyName: string;
  exitCode: number | null = null;
  readonly #world: World;
  readonly #random: Random;
  readonly #ignoresStop: boolean;
  #isReleased = false;
  #isOver = false;
  #isKilled = false;

  constructor(world: World, request: StartRequest, random: Random) {
    this.#world = world;
    this.request = request;
    this.keyName = 'env' in request ? (request.env['LEASEHOLD_KEY'] ?? '') : '';
    this.#random = random;
    this.#ignoresStop = random.chance(0.5);
  }

  /** Whether its program runs. */
  get isRunning(): boolean {
    return this.#isReleased && !this.#isOver;
  }

  release(): void {
    if (this.#isOver) return;
    this.#isReleased = true;
    this.#world.trace(() => `${this.request.backendId} runs`);
  }

  signalStop(): void {
    if (this.#ignoresStop) return;
    this.#world.in(this.#random.whole(20, 700), undefined, () => this.end(0));
  }

  kill(): void {
    if (this.#isKilled) return;
    this.#isKilled = true;
    this.#world.in(this.#random.next() * KILL_MS_MAX, undefined, () => this.end(null));
  }

  end(exitCode: number | null): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.exitCode = exitCode;
    this.#world.trace(() => `${this.request.backendId} has ended`);
  }

  isGone(): boolean {
    return this.#isOver || (this.#isKilled && this.#world.has('kill-unanswered'));
  }
}
