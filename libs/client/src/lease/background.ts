import { sharedController } from '../signals.ts';

/** Calls that nobody waits for any more, such as the release of a grant whose caller has gone on. */
export class Background {
  readonly #running = new Set<Promise<unknown>>();
  readonly #ending = sharedController();

  /** Aborts when the client closes, and no sooner than what runs has had its time. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /** Runs it to its end; a failure concerns nobody, because what is not undone runs out by itself. */
  add(work: Promise<unknown>): void {
    const quiet = work
      .catch(() => undefined)
      .finally(() => {
        this.#running.delete(quiet);
      });
    this.#running.add(quiet);
  }

  /** Fulfilled when all that runs has ended. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  /** Ends what still runs. */
  end(reason: unknown): void {
    this.#ending.abort(reason);
  }
}
