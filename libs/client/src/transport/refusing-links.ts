/** Links that refuse a call before anything is sent. */
import type { AppRouter } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import { TRPCClientError, type TRPCLink } from '@trpc/client';
import { observable } from '@trpc/server/observable';
import { plainInput } from '../inputs/checks.ts';
import { onAbort } from '../signals.ts';

/** Once `closed` aborts, refuses every call with `client.closed`, and ends those in progress with it. */
export function closedLink(closed: AbortSignal): TRPCLink<AppRouter> {
  return () =>
    ({ op, next }) =>
      observable((observer) => {
        const unfollow = onAbort(closed, () =>
          observer.error(TRPCClientError.from(new LeaseError('client.closed'))),
        );
        if (closed.aborted) return unfollow;
        const subscription = next(op).subscribe(observer);
        return () => {
          unfollow();
          subscription.unsubscribe();
        };
      });
}

/**
 * Refuses an input that cannot be written as JSON. It would fail only when it is sent, together with all that
 * is sent at the same time, and look like a lost answer.
 */
export function plainInputLink(): TRPCLink<AppRouter> {
  return () =>
    ({ op, next }) => {
      const found = plainInput(op.input, 'input');
      if (found === undefined) return next(op);
      const invalid = new LeaseError('request.invalid', `${found.field} ${found.problem}`, {
        details: { field: found.field },
      });
      return observable((observer) => observer.error(TRPCClientError.from(invalid)));
    };
}
