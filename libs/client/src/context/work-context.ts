/**
 * What the running piece of work depends on: the leases it was started under, here or in the service
 * that called this one. It travels with the work through every `await`.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { LeaseLost } from '../lease/lease-errors.ts';
import { linkSignals } from '../signals.ts';

export interface WorkContext {
  /** Aborts when the work must stop. */
  readonly signal: AbortSignal;
  /** How long the work may go on as things are; infinite when nothing limits it. Milliseconds. */
  remainingMs(): number;
  /** Whether the work, or what started it, holds this scope; see `scopeId`. */
  holds(scopeId: string): boolean;
  /** @throws {LeaseLost} or the reason of the signal. Reads the clock itself. */
  throwIfOver(): void;
}

const storage = new AsyncLocalStorage<WorkContext>();

/** The context of whoever calls. */
export function currentContext(): WorkContext | undefined {
  return storage.getStore();
}

/**
 * The signal that says when the work that runs now must stop: its lease, or that of whoever called
 * this service, is lost. Undefined outside of `lease.run`, `run` and `runWithRemaining`.
 */
export function currentSignal(): AbortSignal | undefined {
  return storage.getStore()?.signal;
}

/** Runs something that belongs to no piece of work, such as the renewal of all leases. */
export function outsideOfWork<T>(fn: () => T): T {
  return storage.exit(fn);
}

/** What a context adds to the one that it is entered from. */
export interface ContextPart {
  readonly signal: AbortSignal | undefined;
  remainingMs(): number;
  holds(scopeId: string): boolean;
}

/** Runs `fn` with `part` on top of the present context, for as long as what it returns takes. */
export function runInContext<T>(part: ContextPart, fn: () => T): T {
  const outer = currentContext();
  const linked = linkSignals([part.signal, outer?.signal]);
  const context: WorkContext = {
    signal: linked.signal,
    remainingMs: () => Math.min(part.remainingMs(), outer?.remainingMs() ?? Infinity),
    holds: (scopeId) => part.holds(scopeId) || outer?.holds(scopeId) === true,
    throwIfOver() {
      linked.signal.throwIfAborted();
      if (context.remainingMs() <= 0) throw new LeaseLost('expired');
    },
  };
  return finallyAfter(
    () => storage.run(context, fn),
    () => {
      linked[Symbol.dispose]();
    },
  );
}

/** Runs `fn`, then `end`: at once, or when the promise that `fn` returned has settled. */
export function finallyAfter<T>(fn: () => T, end: () => void): T {
  let result: T;
  try {
    result = fn();
  } catch (error) {
    end();
    throw error;
  }
  if (result instanceof Promise) return result.finally(end) as T;
  end();
  return result;
}
