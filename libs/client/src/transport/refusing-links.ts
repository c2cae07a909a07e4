/** Links that refuse a call before anything is sent. */
import type { AppRouter } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import type { ConnectionFailures } from '@leasehold/service-kit/controllers';
import { TRPCClientError, type TRPCLink } from '@trpc/client';
import { observable, tap } from '@trpc/server/observable';
import { plainInput } from '../inputs/checks.ts';
import { onAbort } from '../signals.ts';
import { unreachableBy } from './call-errors.ts';

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

/** The calls that wait for a connection. One that has waited too long fails; nothing of it was sent. */
export class WaitingCalls {
  readonly #patienceMs: (() => number) | undefined;
  readonly #failures: ConnectionFailures;
  readonly #url: string;
  readonly #stops = new Set<() => void>();
  #isOpen = false;

  constructor(
    patienceMs: (() => number) | undefined,
    failures: ConnectionFailures,
    urls: readonly string[],
  ) {
    this.#patienceMs = patienceMs;
    this.#failures = failures;
    this.#url = urls.join(', ');
  }

  changed(state: 'open' | 'closed'): void {
    this.#isOpen = state === 'open';
    if (!this.#isOpen) return;
    for (const stop of this.#stops) stop();
  }

  link(): TRPCLink<AppRouter> {
    return () =>
      ({ op, next }) => {
        const patienceMs = this.#patienceMs?.() ?? Infinity;
        if (this.#isOpen || patienceMs === Infinity) return next(op);
        return observable((observer) => {
          const timer = setTimeout(() => {
            stop();
            const { message } = unreachableBy(this.#failures, this.#url);
            observer.error(TRPCClientError.from(new LeaseError('request.unreachable', message)));
          }, patienceMs);
          const stop = (): void => {
            clearTimeout(timer);
            this.#stops.delete(stop);
          };
          this.#stops.add(stop);
          const subscription = next(op)
            .pipe(tap({ error: stop, complete: stop }))
            .subscribe(observer);
          return () => {
            stop();
            subscription.unsubscribe();
          };
        });
      };
  }
}
