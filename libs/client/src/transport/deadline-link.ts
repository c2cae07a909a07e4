import type { AppRouter } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import { failuresText, type ConnectionFailures } from '@leasehold/service-kit/controllers';
import { TRPCClientError, type TRPCLink } from '@trpc/client';
import { observable, tap } from '@trpc/server/observable';

/**
 * Limits how long a query or a mutation may take, from its start to its answer, including the time
 * without a connection. Subscriptions are not limited. The error has the reasons if nothing can be
 * connected to.
 */
export function deadlineLink(timeoutMs: number, failures: ConnectionFailures): TRPCLink<AppRouter> {
  return () =>
    ({ op, next }) =>
      observable((observer) => {
        const timer =
          op.type === 'subscription'
            ? undefined
            : setTimeout(() => {
                const why = failures.size === 0 ? '' : `\n${failuresText(failures)}`;
                const cause = new LeaseError(
                  'request.outcome_unknown',
                  `No answer within ${String(timeoutMs)} ms; the outcome is unknown.${why}`,
                );
                observer.error(TRPCClientError.from(cause));
              }, timeoutMs);
        const stop = (): void => clearTimeout(timer);
        const subscription = next(op)
          .pipe(tap({ error: stop, complete: stop }))
          .subscribe(observer);
        return () => {
          stop();
          subscription.unsubscribe();
        };
      });
}
