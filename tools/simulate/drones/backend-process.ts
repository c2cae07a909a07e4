import type { WarmProcess } from '../../../apps/drone/src/warden/warden.ts';
import type { Random } from '../engine/random.ts';
import type { World } from '../engine/world.ts';

/** A SIGKILL has ended everything within this. */
const KILL_MS_MAX = 30;

/** A backend's processes: they stop after a while, or ignore the signal, and end when they are killed. */
export class BackendProcess implements WarmProcess {
  readonly pid = 1;
  readonly claimFile = '/claim';
  exitCode: number | null = null;
  readonly #world: World;
  readonly #random: Random;
  readonly #ignoresStop: boolean;
  readonly #onClaim: (backendId: string, keyName: string) => void;
  #id: string;
  #isReleased = false;
  #isOver = false;
  #isKilled = false;

  /** `onClaim`: it was warm, and runs for a key from now on. */
  constructor(
    world: World,
    of: { id: string; onClaim: (backendId: string, keyName: string) => void },
    random: Random,
  ) {
    this.#world = world;
    this.#id = of.id;
    this.#onClaim = of.onClaim;
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
    this.#world.trace(() => `${this.#id} runs`);
  }

  claim(backendId: string, variables: Readonly<Record<string, string>>): void {
    this.#world.trace(() => `${this.#id} becomes ${backendId}`);
    this.#id = backendId;
    this.#onClaim(backendId, variables['LEASEHOLD_KEY'] ?? '');
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
    this.#world.trace(() => `${this.#id} has ended`);
  }

  isGone(): boolean {
    return this.#isOver || (this.#isKilled && this.#world.has('kill-unanswered'));
  }
}
