/** Lets a number of things be done at once, and the others wait for their turn. */
export class Semaphore {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(atOnceMax: number) {
    this.#free = atOnceMax;
  }

  /** Does it in its turn; who asked first is first. */
  async run<T>(act: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await act();
    } finally {
      const next = this.#waiting.shift();
      // The place is handed on, so that nobody who comes meanwhile can take it.
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
