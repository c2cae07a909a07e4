/**
 * Which of several controllers is asked over HTTP. One is kept as long as it answers. An address is used
 * once it has answered `/healthz`, and must answer again after it was passed over. While a call waits
 * for its answer and nothing at all arrives from the address, it is asked for a sign of life: a machine
 * that is cut off says nothing, and a call that is in line for two minutes looks the same from outside.
 *
 * With one address there is no choice: no sign of life is requested, and calls fail with their own errors.
 */

import { failuresText, type ConnectionFailures } from './connection-failures.ts';

/** After so long without anything from an address, it is asked for a sign of life. */
export const SILENCE_MS = 500;
/** How long it may take to give one. With {@link SILENCE_MS}: how long a silent one is trusted. */
export const SIGN_OF_LIFE_MS_MAX = 1_000;

/** Statuses of a controller that stops or is without its database, and of a proxy without either. */
const AWAY_STATUSES = new Set([502, 503, 504]);

/** No address of a controller answers: nothing was sent. */
export class NoControllerAnswers extends Error {
  override readonly name = 'NoControllerAnswers';
  /** As the operating system names it, for callers that distinguish failures by their code. */
  readonly code = 'EHOSTUNREACH';
  readonly failures: ConnectionFailures;

  constructor(failures: ConnectionFailures) {
    super(failuresText(failures), { cause: [...failures.values()][0] });
    this.failures = failures;
  }
}

export class ControllerChoice {
  readonly #urls: readonly string[];
  readonly #heardAtMs = new Map<string, number>();
  readonly #asking = new Map<string, Promise<boolean>>();
  readonly #failures = new Map<string, unknown>();
  #index = 0;
  #isKnown: boolean;
  #choosing: Promise<string> | undefined;

  /** `urls`: at least one, tried in this order. */
  constructor(urls: readonly string[]) {
    this.#urls = urls;
    this.#isKnown = urls.length === 1;
  }

  get count(): number {
    return this.#urls.length;
  }

  get #current(): string {
    return this.#urls[this.#index] ?? '';
  }

  /**
   * The address to ask now.
   * @throws {NoControllerAnswers} after {@link SIGN_OF_LIFE_MS_MAX} for each address, at most.
   */
  choose(): Promise<string> {
    if (this.#isKnown) return Promise.resolve(this.#current);
    this.#choosing ??= this.#firstThatAnswers().finally(() => {
      this.#choosing = undefined;
    });
    return this.#choosing;
  }

  /** Records an answer of an address: any is a sign of life, but after some the next address is used. */
  answered(url: string, status: number): void {
    this.#heardAtMs.set(url, performance.now());
    if (AWAY_STATUSES.has(status)) this.passOver(url);
  }

  /** Moves on from an address, unless that has happened since. */
  passOver(url: string): void {
    if (url !== this.#current || this.count === 1) return;
    this.#index = (this.#index + 1) % this.count;
    this.#isKnown = false;
  }

  /**
   * Watches an address while a call to it has no answer. When it is silent, it is passed over and
   * `onSilent` is called once. Returns a function that stops it.
   */
  watch(url: string, onSilent: () => void): () => void {
    if (this.count === 1) return () => undefined;
    const sentAtMs = performance.now();
    let timer: NodeJS.Timeout | undefined;
    let isOver = false;
    const look = (): void => {
      const heardAtMs = Math.max(sentAtMs, this.#heardAtMs.get(url) ?? 0);
      const leftMs = heardAtMs + SILENCE_MS - performance.now();
      if (leftMs > 0) {
        timer = setTimeout(look, leftMs);
        return;
      }
      void this.#answers(url).then((isAlive) => {
        if (isOver) return;
        if (isAlive) {
          look();
          return;
        }
        this.passOver(url);
        onSilent();
      });
    };
    look();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }

  async #firstThatAnswers(): Promise<string> {
    for (let tried = 0; tried < this.count; tried += 1) {
      const url = this.#current;
      if (await this.#answers(url)) {
        // While it was asked, another call may have found it silent.
        if (url === this.#current) this.#isKnown = true;
        return url;
      }
      this.passOver(url);
    }
    throw new NoControllerAnswers(new Map(this.#failures));
  }

  /** Asks for a sign of life, once at a time. */
  #answers(url: string): Promise<boolean> {
    const asking =
      this.#asking.get(url) ??
      failureOf(url)
        .then((failure) => {
          if (failure === undefined) {
            this.#heardAtMs.set(url, performance.now());
            this.#failures.delete(url);
          } else this.#failures.set(url, failure);
          return failure === undefined;
        })
        .finally(() => this.#asking.delete(url));
    this.#asking.set(url, asking);
    return asking;
  }
}

/** Why an address gives no sign of life; undefined if it does. */
async function failureOf(url: string): Promise<unknown> {
  try {
    const response = await fetch(`${url}/healthz`, {
      signal: AbortSignal.timeout(SIGN_OF_LIFE_MS_MAX),
    });
    await response.body?.cancel();
    return AWAY_STATUSES.has(response.status)
      ? new Error(`HTTP status ${String(response.status)}`)
      : undefined;
  } catch (error) {
    return error;
  }
}
