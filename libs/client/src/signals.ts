/**
 * Signals that follow others. `AbortSignal.any` would do, but listeners on a long-lived signal must
 * be removed again: a service that acquires a lease for each request must not leak memory.
 */
import { setMaxListeners } from 'node:events';
import { onAbort } from '@leasehold/service-kit/signals';

/** The controller of a signal that any number of calls may listen to without a leak warning. */
export function sharedController(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}

export interface LinkedSignal extends Disposable {
  /** Undefined where none was given. */
  readonly signal: AbortSignal | undefined;
}

/** A signal that aborts with the first of the given ones, until it is disposed of. */
export function linkSignals(signals: readonly (AbortSignal | undefined)[]): LinkedSignal {
  const given = signals.filter((signal) => signal !== undefined);
  if (given.length < 2) return { signal: given[0], [Symbol.dispose]: () => undefined };
  const controller = new AbortController();
  const ends: (() => void)[] = [];
  const unlink = (): void => {
    for (const end of ends.splice(0)) end();
  };
  for (const signal of given) {
    if (signal.aborted) {
      controller.abort(signal.reason);
      break;
    }
    // A signal may be given to any number of acquires; each stops following it again.
    const follow = (reason: unknown): void => {
      unlink();
      controller.abort(reason);
    };
    ends.push(onAbort(signal, follow));
  }
  if (controller.signal.aborted) unlink();
  return { signal: controller.signal, [Symbol.dispose]: unlink };
}

/**
 * An end that a call may have before its answer. It is like a signal, but costs a call that is answered
 * nothing: the signal itself is made when somebody asks for it.
 */
export class Ending {
  #controller: AbortController | undefined;
  #isOver = false;
  #reason: unknown;
  #listener: ((reason: unknown) => void) | undefined;

  get aborted(): boolean {
    return this.#isOver;
  }

  get reason(): unknown {
    return this.#reason;
  }

  /** The same as a signal. Any number of calls may listen to it without a leak warning. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = sharedController();
      if (this.#isOver) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /** Calls `fn` with the reason. */
  onEnd(fn: (reason: unknown) => void): void {
    const earlier = this.#listener;
    if (this.#isOver) {
      fn(this.#reason);
    } else if (earlier === undefined) {
      this.#listener = fn;
    } else {
      this.#listener = (reason) => {
        earlier(reason);
        fn(reason);
      };
    }
  }

  /** Has no effect the second time. */
  end(reason: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#reason = reason;
    this.#listener?.(reason);
    this.#controller?.abort(reason);
  }
}
