import { cores, microseconds } from './quantities.ts';
import type { Bound, Figure } from './figures.ts';
import type { ProcessorTime } from './processor-time.ts';

const PARTIES = ['client', 'controller', 'postgres'] as const;

/** Adds up what the parties of a call take during rounds. */
export class Meter {
  readonly #read: () => ProcessorTime;
  readonly #usedUs = { client: 0, controller: 0, postgres: 0 };
  #callCount = 0;
  #tookUs = 0;

  constructor(read: () => ProcessorTime) {
    this.#read = read;
  }

  /** @param round returns calls per second. */
  async during(round: () => Promise<number>): Promise<number> {
    const before = this.#read();
    const startedAtMs = performance.now();
    const rate = await round();
    const tookMs = performance.now() - startedAtMs;
    const after = this.#read();
    for (const party of PARTIES) this.#usedUs[party] += after[party] - before[party];
    this.#tookUs += tookMs * 1_000;
    this.#callCount += (rate * tookMs) / 1_000;
    return rate;
  }

  /** Of each party for each call, in microseconds. */
  eachCall(
    what: string,
    limits: Partial<Record<keyof ProcessorTime, { required: Bound; goal: Bound }>> = {},
  ): (Figure & { readonly party: keyof ProcessorTime })[] {
    return PARTIES.map((party) => ({
      party,
      what: `${what}: ${party}`,
      result: microseconds(this.#usedUs[party] / this.#callCount),
      ...limits[party],
    }));
  }

  coresInUse(what: string): Figure {
    const { client, controller, postgres } = this.#usedUs;
    return { what, result: cores((client + controller + postgres) / this.#tookUs) };
  }
}
