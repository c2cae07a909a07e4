import { WardenLost } from '../warden-link/warden-link.ts';

/**
 * One attempt to take command of a warden. While it is under way, the loss of the connection fails
 * it; once it is complete, the loss is reported. So one loss never starts two recoveries.
 */
export class Attachment {
  readonly #onLost: () => void;
  readonly #failed: Promise<never>;
  #fail!: (error: WardenLost) => void;
  #isComplete = false;
  #isLost = false;

  constructor(onLost: () => void) {
    this.#onLost = onLost;
    this.#failed = new Promise((_resolve, reject) => {
      this.#fail = reject;
    });
    // It may reject before anything waits for it; the next step then fails.
    this.#failed.catch(() => undefined);
  }

  /** @throws {WardenLost} when the connection is lost before `step` has ended. */
  step<T>(step: Promise<T>): Promise<T> {
    return Promise.race([this.#failed, step]);
  }

  /** @throws {WardenLost} when the connection has been lost. */
  complete(): void {
    if (this.#isLost) throw new WardenLost('the warden is gone');
    this.#isComplete = true;
  }

  lost(): void {
    if (this.#isLost) return;
    this.#isLost = true;
    if (this.#isComplete) this.#onLost();
    else this.#fail(new WardenLost('the warden is gone'));
  }
}
