import type { Process } from './process.ts';
import type { Random } from './random.ts';
import type { World } from './world.ts';

/** How messages travel. */
export interface Weather {
  readonly delayMs: readonly [from: number, to: number];
  readonly lostShare: number;
  readonly twiceShare: number;
  /** The share of messages that take up to `slowMs` longer, and so overtake nothing and are overtaken. */
  readonly slowShare: number;
  readonly slowMs: number;
}

const CALM: Weather = {
  delayMs: [0.2, 3],
  lostShare: 0,
  twiceShare: 0,
  slowShare: 0,
  slowMs: 0,
};
const STORM: Weather = {
  delayMs: [1, 60],
  lostShare: 0.25,
  twiceShare: 0.15,
  slowShare: 0.3,
  slowMs: 2_500,
};

/** How a client is cut off from its server. */
interface Cut {
  /** Whether what it sends arrives. */
  readonly isOneWay: boolean;
  readonly forMs: number;
}

/** Messages between processes: delayed, lost, repeated and reordered. */
export class Network {
  readonly #world: World;
  readonly #random: Random;
  readonly #cuts = new Set<string>();
  weather: Weather = CALM;

  constructor(world: World) {
    this.#world = world;
    this.#random = world.random.fork('network');
  }

  /** For so long messages are late, lost or repeated. */
  storm(forMs: number): void {
    this.weather = STORM;
    this.#world.in(forMs, undefined, () => (this.weather = CALM));
  }

  /** Nothing of the server reaches the client for so long, nor the other way, unless that is cut in one direction. */
  cutOff(server: string, client: string, { isOneWay, forMs }: Cut): void {
    this.cut(server, client);
    if (!isOneWay) this.cut(client, server);
    this.#world.in(forMs, undefined, () => {
      this.heal(server, client);
      this.heal(client, server);
    });
  }

  /** Whether nothing is broken. */
  get isCalm(): boolean {
    return this.weather === CALM && this.#cuts.size === 0;
  }

  /** Messages from one to the other vanish, the answers too if it is cut in both directions. */
  cut(from: string, to: string): void {
    this.#world.trace(() => `nothing gets from ${from} to ${to}`);
    this.#cuts.add(`${from}>${to}`);
  }

  heal(from: string, to: string): void {
    if (this.#cuts.delete(`${from}>${to}`)) this.#world.trace(() => `${from} reaches ${to}`);
  }

  reaches(from: string, to: string): boolean {
    return !this.#cuts.has(`${from}>${to}`);
  }

  send(from: Process, to: Process, arrive: () => void): void {
    const { lostShare, twiceShare } = this.weather;
    if (!this.reaches(from.name, to.name) || this.#random.chance(lostShare)) return;
    this.#world.in(this.#delayMs(), to, arrive);
    if (this.#random.chance(twiceShare)) this.#world.in(this.#delayMs(), to, arrive);
  }

  /**
   * A request and its answer. Without an answer the promise stays pending: the caller has a bound of its own.
   * A process that is down refuses, as a machine does on which nobody listens.
   */
  call<T>(
    from: Process,
    to: Process,
    carryOut: () => Promise<T>,
    refused: () => Error,
  ): Promise<T> {
    const { incarnation } = from;
    return new Promise((resolve, reject) => {
      if (!to.isUp && this.reaches(from.name, to.name)) {
        this.#world.in(this.#delayMs(), from, () => reject(refused()));
        return;
      }
      const answer = (settle: () => void): void => {
        // The caller that has ended and was started again has not asked.
        if (from.incarnation === incarnation) this.send(to, from, settle);
      };
      this.send(from, to, () => {
        carryOut().then(
          (value) => answer(() => resolve(value)),
          (error: unknown) => answer(() => reject(asError(error))),
        );
      });
    });
  }

  #delayMs(): number {
    const { delayMs, slowShare, slowMs } = this.weather;
    const [fromMs, toMs] = delayMs;
    const slowedMs = this.#random.chance(slowShare) ? this.#random.next() * slowMs : 0;
    return fromMs + this.#random.next() * (toMs - fromMs) + slowedMs;
  }
}

/** What a promise is rejected with. */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}
