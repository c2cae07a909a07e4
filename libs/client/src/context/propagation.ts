/**
 * A lease across services: the holder sends the services that it calls the time in which they may work.
 * They stop by their own clock, or as soon as the connection is closed.
 *
 * The header contains a duration, never an instant, so no clocks of different machines are compared. The
 * time that the request takes to arrive is covered by the grace between the holder's own deadline and
 * the grant's expiry (a sixth of the TTL).
 */
import type { TickingClock } from '@leasehold/service-kit/boot-clock';
import { onAbort } from '@leasehold/service-kit/signals';
import { TRPCClientError, type TRPCLink } from '@trpc/client';
import type { AnyRouter } from '@trpc/server';
import { observable } from '@trpc/server/observable';
import { LeaseLost } from '../lease/lease.ts';
import { linkSignals, sharedController } from '../signals.ts';
import { currentContext, runInContext, type WorkContext } from './work-context.ts';

/** The header: whole milliseconds. */
export const REMAINING_HEADER = 'leasehold-remaining-ms';

/** Longer than a lease can last: larger values are invalid. */
const REMAINING_MS_MAX = 24 * 60 * 60 * 1_000;

/** The header for a call of the work that runs now; empty if nothing limits the work. */
export function remainingHeaders(
  context: WorkContext | undefined = currentContext(),
): Record<string, string> {
  const remainingMs = context?.remainingMs() ?? Infinity;
  if (!Number.isFinite(remainingMs)) return {};
  return { [REMAINING_HEADER]: String(Math.max(0, Math.floor(remainingMs))) };
}

export type Fetch = typeof globalThis.fetch;

/**
 * `fetch` for work under a lease: it sends the remaining time to the receiver. When the lease is lost, it
 * is cancelled, including the reading of an answer. Outside of such work it is plain `fetch`.
 */
export function createLeaseFetch(fetchOf: Fetch = (...args) => globalThis.fetch(...args)): Fetch {
  return async (input, init) => {
    const context = currentContext();
    if (context === undefined) return fetchOf(input, init);
    context.throwIfOver();
    const request = new Request(input, init);
    for (const [name, value] of Object.entries(remainingHeaders(context))) {
      request.headers.set(name, value);
    }
    // The answer may be read for as long as the work goes on; the runtime holds this one weakly.
    const signal = AbortSignal.any([request.signal, context.signal]);
    return fetchOf(request, { signal });
  };
}

/** Headers as a server has them: Node's, a `Headers`, or any record. */
export type ReceivedHeaders =
  | { get(name: string): string | null }
  | Readonly<Record<string, string | readonly string[] | undefined>>;

/** The remaining time in the headers of a request; undefined without the header. Milliseconds. */
export function remainingOf(headers: ReceivedHeaders): number | undefined {
  const value = isGetter(headers)
    ? headers.get(REMAINING_HEADER)
    : (Object.entries(headers).find(([name]) => name.toLowerCase() === REMAINING_HEADER)?.[1] ??
      null);
  const text = typeof value === 'object' && value !== null ? value[0] : value;
  if (text === null || text === undefined) return undefined;
  // An invalid value permits nothing, nor does an empty one: the work may not begin.
  const remainingMs = Number(text);
  if (!Number.isFinite(remainingMs)) return 0;
  return Math.min(Math.max(0, remainingMs), REMAINING_MS_MAX);
}

function isGetter(headers: ReceivedHeaders): headers is { get(name: string): string | null } {
  return typeof headers.get === 'function';
}

/** The lease of a caller, in the service that it called. Dispose of it at the end of the request. */
export interface ReceivedLease extends Disposable {
  /** Aborts when the time is over or the request ends. Its reason is a `LeaseLost`. */
  readonly signal: AbortSignal;
  /** The remaining time; infinite if the caller sent none. Milliseconds. */
  remainingMs(): number;
  /** Runs the work of the request; calls and leases within end with it. */
  run<T>(fn: () => T): T;
}

/** Counts the time down on `clock`, from now on. */
export function receiveRemaining(
  clock: TickingClock,
  remainingMs: number | undefined,
  requestSignal?: AbortSignal,
): ReceivedLease {
  const ending = sharedController();
  // An invalid time permits nothing: the work may not begin.
  const isTime = remainingMs === undefined || (typeof remainingMs === 'number' && remainingMs >= 0);
  const endsAtMs = clock.nowMs() + (isTime ? (remainingMs ?? Infinity) : 0);
  const cancelTimer = Number.isFinite(endsAtMs)
    ? clock.at(endsAtMs, () => end(new LeaseLost('expired')))
    : undefined;
  const hangUp = (): void => end(new LeaseLost('unreachable', { cause: requestSignal?.reason }));
  const stopWatching = (): void => {
    cancelTimer?.();
    requestSignal?.removeEventListener('abort', hangUp);
  };
  const end = (lost: LeaseLost): void => {
    stopWatching();
    ending.abort(lost);
  };
  let isDisposed = false;
  const leftMs = (): number => Math.max(0, endsAtMs - clock.nowMs());
  requestSignal?.addEventListener('abort', hangUp, { once: true });
  if (requestSignal?.aborted === true) hangUp();
  else if (leftMs() === 0) end(new LeaseLost('expired'));
  // What the request has left to run on is not limited by it any more, unless it was told to stop before.
  const isReleased = (): boolean => isDisposed && !ending.signal.aborted;
  const part = {
    signal: ending.signal,
    ending: ending.signal,
    remainingMs: () => (isReleased() ? Infinity : leftMs()),
    holds: () => false,
    isReleased,
  };
  return {
    signal: ending.signal,
    remainingMs: leftMs,
    run: (fn) => runInContext(part, fn),
    [Symbol.dispose]() {
      isDisposed = true;
      stopWatching();
    },
  };
}

/** Receives, runs `fn`, and disposes of what was received when `fn` is done. */
export function runReceived<T>(received: ReceivedLease, fn: (signal: AbortSignal) => T): T {
  const work = (): T => {
    const result = fn(received.signal);
    // A query of a builder runs when it is asked for its result: that must be within the context, too.
    return isThenable(result) ? (Promise.resolve(result) as T) : result;
  };
  return finallyAfter(
    () => received.run(work),
    () => received[Symbol.dispose](),
  );
}

/** Runs `fn`, then `end`: at once, or when the promise that `fn` returned has settled. */
function finallyAfter<T>(fn: () => T, end: () => void): T {
  let result: T;
  try {
    result = fn();
  } catch (error) {
    end();
    throw error;
  }
  if (isThenable(result)) return Promise.resolve(result).finally(end) as T;
  end();
  return result;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof (value as { readonly then?: unknown }).then === 'function'
  );
}

/** Where the link puts the headers that the terminating link has to send. */
const CONTEXT_KEY = 'leaseholdHeaders';

/**
 * A tRPC link for clients of your own services: calls of work under a lease are cancelled when the lease
 * is lost, and are not started after that. To send the remaining time, give {@link leaseHeaders} to the
 * `httpLink` or `httpBatchLink` behind it. A WebSocket link has no headers for a single call: over it
 * calls are cancelled only at the caller, and the receiver is not notified.
 */
export function leasePropagationLink<Router extends AnyRouter>(): TRPCLink<Router> {
  return () =>
    ({ op, next }) => {
      const context = currentContext();
      if (context === undefined) return next(op);
      return observable((observer) => {
        try {
          context.throwIfOver();
        } catch (error) {
          observer.error(TRPCClientError.from(error as Error));
          return undefined;
        }
        // First of all listeners: when its signal aborts, a link may take the call for complete.
        const unfollow = onAbort(context.signal, (lost) =>
          observer.error(TRPCClientError.from(lost as Error)),
        );
        const linked = linkSignals([op.signal ?? undefined, context.signal]);
        const subscription = next({
          ...op,
          signal: linked.signal,
          context: { ...op.context, [CONTEXT_KEY]: remainingHeaders(context) },
        }).subscribe(observer);
        return () => {
          unfollow();
          // Its signal is about to abort where the work is over: links behind may go by it alone.
          if (!context.signal.aborted) linked[Symbol.dispose]();
          subscription.unsubscribe();
        };
      });
    };
}

type Operations =
  | { readonly op: { readonly context: Record<string, unknown> } }
  | { readonly opList: readonly { readonly context: Record<string, unknown> }[] };

/**
 * For the `headers` option of `httpLink` and `httpBatchLink`: the remaining time, from
 * {@link leasePropagationLink}. Calls in one batch get the smallest one.
 */
export function leaseHeaders(operations: Operations): Record<string, string> {
  const ops = 'opList' in operations ? operations.opList : [operations.op];
  const all = ops
    .map(({ context }) => context[CONTEXT_KEY] as Record<string, string> | undefined)
    .flatMap((headers) => Object.entries(headers ?? {}));
  const [least] = all.toSorted(([, a], [, b]) => Number(a) - Number(b));
  return least === undefined ? {} : Object.fromEntries([least]);
}
