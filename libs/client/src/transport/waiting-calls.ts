import type { AppRouter } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import type { ConnectionFailures } from '@leasehold/service-kit/controllers';
import { TRPCClientError, type TRPCLink } from '@trpc/client';
import { observable, tap } from '@trpc/server/observable';
import { unreachableBy } from './call-errors.ts';

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
