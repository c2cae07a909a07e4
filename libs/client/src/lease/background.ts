import { sharedController } from '../signals.ts';

/** Calls that nobody waits for any more, such as the release of a grant whose caller has gone on. */
export class Background {
  readonly #running = new Set<Promise<unknown>>();
  readonly #ending = sharedController();

  /** Aborts when the client closes, after running calls have had some time to finish. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /** Runs it to its end and ignores a failure, because a grant that is not released expires by itself. */
  add(work: Promise<unknown>): void {
    const quiet = work
      .catch(() => undefined)
      .finally(() => {
        this.#running.delete(quiet);
      });
    this.#running.add(quiet);
  }

  /** Fulfilled when all running calls have ended. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  /** Ends the calls that still run. */
  end(reason: unknown): void {
    this.#ending.abort(reason);
  }
}
