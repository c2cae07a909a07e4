import { TRPCClientError, type TRPCLink } from '@trpc/client';
import type { AnyRouter } from '@trpc/server';
import { observable } from '@trpc/server/observable';
import { linkSignals } from '../signals.ts';
import { remainingHeaders } from './propagation.ts';
import { currentContext } from './work-context.ts';

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
        const linked = linkSignals([op.signal ?? undefined, context.signal]);
        const { signal = context.signal } = linked;
        const subscription = next({
          ...op,
          signal,
          context: { ...op.context, [CONTEXT_KEY]: remainingHeaders(context) },
        }).subscribe(observer);
        const giveUp = (): void => {
          subscription.unsubscribe();
          observer.error(TRPCClientError.from(signal.reason as Error));
        };
        signal.addEventListener('abort', giveUp, { once: true });
        return () => {
          signal.removeEventListener('abort', giveUp);
          linked[Symbol.dispose]();
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
