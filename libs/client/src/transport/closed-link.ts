import type { AppRouter } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import { TRPCClientError, type TRPCLink } from '@trpc/client';
import { observable } from '@trpc/server/observable';
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
