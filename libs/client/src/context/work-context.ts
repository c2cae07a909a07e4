/**
 * What the running piece of work depends on: the leases it was started under, here or in the service
 * that called this one. It travels with the work through every `await`.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { setMaxListeners } from 'node:events';
import { LeaseLost } from '../lease/lease.ts';

/** One thing that work depends on: a lease of this process, or the remaining time that its caller sent. */
export interface ContextPart {
  /** Aborts when the work must stop. */
  readonly signal: AbortSignal;
  /** Whether the work must stop, and why: what the signal says, without one being made for it. */
  readonly ending: Pick<AbortSignal, 'aborted' | 'reason'>;
  /** Whether it is over without a loss: then it limits nothing any more. */
  isReleased(): boolean;
  /** How long the work may still go on; infinite when nothing limits it. Milliseconds. */
  remainingMs(): number;
  /** Whether it holds this scope; see `HeldLease.scopeId`. */
  holds(scopeId: string): boolean;
}

/** All that work depends on. */
export class WorkContext implements Omit<ContextPart, 'ending' | 'isReleased'> {
  readonly #parts: readonly ContextPart[];
  #signal: AbortSignal | undefined;

  constructor(part: ContextPart, outer: WorkContext | undefined) {
    // Work may start the next piece of work, and so on without an end: what is released is not carried on.
    const outerParts = outer === undefined ? [] : outer.#parts.filter((one) => !one.isReleased());
    this.#parts = [...outerParts, part];
  }

  get signal(): AbortSignal {
    this.#signal ??= joinSignals(this.#parts);
    return this.#signal;
  }

  remainingMs(): number {
    return Math.min(...this.#parts.map((part) => part.remainingMs()));
  }

  holds(scopeId: string): boolean {
    return this.#parts.some((part) => part.holds(scopeId));
  }

  /** Why the work is over, if it is. Reads the clock itself. */
  get overBecause(): unknown {
    const ended = this.#parts.find(({ ending }) => ending.aborted);
    if (ended !== undefined) return ended.ending.reason as unknown;
    return this.remainingMs() <= 0 ? new LeaseLost('expired') : undefined;
  }

  /** @throws {LeaseLost} or the reason of the signal, when the work is over. */
  throwIfOver(): void {
    const reason = this.overBecause;
    if (reason !== undefined) throw reason as Error;
  }

  /** Calls `fn` when the work is over. @returns a function that ends it. */
  onOver(fn: () => void): () => void {
    for (const { signal } of this.#parts) signal.addEventListener('abort', fn, { once: true });
    return () => {
      for (const { signal } of this.#parts) signal.removeEventListener('abort', fn);
    };
  }
}

function joinSignals([first, ...others]: readonly ContextPart[]): AbortSignal {
  if (first !== undefined && others.length === 0) return first.signal;
  // The runtime holds a joined signal weakly, so contexts may come and go under a long lease.
  const signal = AbortSignal.any([first, ...others].flatMap((part) => part?.signal ?? []));
  setMaxListeners(0, signal);
  return signal;
}

const storage = new AsyncLocalStorage<WorkContext | undefined>();

/** The context of the caller. */
export function currentContext(): WorkContext | undefined {
  return storage.getStore();
}

/**
 * The signal that aborts when the work that runs now must stop: its lease, or that of the caller of this
 * service, is lost. Undefined outside of `lease.run`, `run` and `runWithRemaining`.
 */
export function currentSignal(): AbortSignal | undefined {
  return storage.getStore()?.signal;
}

/**
 * Runs something that belongs to no piece of work, such as the renewal of all leases. `storage.exit` does the same,
 * but turns off the hooks of the runtime and on again, which costs more than a call.
 */
export function outsideOfWork<T>(fn: () => T): T {
  return storage.getStore() === undefined ? fn() : storage.run(undefined, fn);
}

/** Runs `fn` with `part` on top of the present context. */
export function runInContext<T>(part: ContextPart, fn: () => T): T {
  return storage.run(new WorkContext(part, currentContext()), fn);
}
