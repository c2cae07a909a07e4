/**
 * Signals that follow others. `AbortSignal.any` would do, but listeners on a long-lived signal must
 * be removed again: a service that acquires a lease for each request must not leak memory.
 */
import { setMaxListeners } from 'node:events';

/** The controller of a signal that any number of calls may listen to without a leak warning. */
export function sharedController(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}

export interface LinkedSignal extends Disposable {
  readonly signal: AbortSignal;
}

/** A signal that aborts with the first of the given ones, until it is disposed of. */
export function linkSignals(signals: readonly (AbortSignal | undefined)[]): LinkedSignal {
  const controller = new AbortController();
  const ends: (() => void)[] = [];
  const unlink = (): void => {
    for (const end of ends.splice(0)) end();
  };
  for (const signal of signals) {
    if (signal === undefined) continue;
    if (signal.aborted) {
      controller.abort(signal.reason);
      break;
    }
    // A signal may be given to any number of acquires; each removes its listener again.
    setMaxListeners(0, signal);
    const follow = (): void => {
      unlink();
      controller.abort(signal.reason);
    };
    signal.addEventListener('abort', follow, { once: true });
    ends.push(() => signal.removeEventListener('abort', follow));
  }
  if (controller.signal.aborted) unlink();
  return { signal: controller.signal, [Symbol.dispose]: unlink };
}

/** Settles as `promise` does, unless the signal aborts first: then rejects with its reason. */
export function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(signal.reason as Error);
    if (signal.aborted) {
      // Nobody waits for it any more: its rejection must not go unhandled.
      promise.catch(() => undefined);
      giveUp();
      return;
    }
    signal.addEventListener('abort', giveUp, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', giveUp));
  });
}
