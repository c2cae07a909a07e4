import { LeaseholdCallError } from '../transport/call-errors.ts';
import { sharedController } from '../signals.ts';

/**
 * The end of a client, in two steps, and its calls that nobody waits for any more, such as the release of a
 * grant whose caller has gone on. First callers are refused and waits end; then these calls end too.
 */
export class Background {
  readonly #running = new Set<Promise<unknown>>();
  readonly #closing = sharedController();
  readonly #ending = sharedController();

  /** Aborts as soon as the client is closed, with `client.closed`. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Aborts when the client is closed, after running calls have had some time to finish. */
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

  /** The client is closed: from now on its callers are refused, and none waits. */
  close(): void {
    this.#closing.abort(new LeaseholdCallError('client.closed'));
  }

  /** Lets running calls finish until `isEnough` is fulfilled, and ends the others. */
  async end(isEnough: Promise<unknown>): Promise<void> {
    await Promise.race([this.idle(), isEnough]);
    this.#ending.abort(this.#closing.signal.reason);
  }

  /** Fulfilled when all running calls have ended. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }
}
