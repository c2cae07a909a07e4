/** How this process learns of revocations: one subscription for all of its leases. */
import type { RevocationNotice } from '@leasehold/keys-core/leases';
import { callErrorOf, LeaseholdCallError } from '../transport/call-errors.ts';
import { outsideOfWork } from '../context/work-context.ts';
import type { ControllerApi } from '../transport/controller-client.ts';
import type { Machine } from '../machine.ts';
import { pauseBeforeRetry } from './wire/calls.ts';

export interface SessionOptions {
  readonly api: ControllerApi;
  readonly machine: Machine;
  readonly clientId: string;
  readonly onNotice: (notice: RevocationNotice) => void;
  /** The session has begun, perhaps again: notices before that may be lost. */
  readonly onBegin: () => void;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** Opens the session, and again whenever it ends, until the signal aborts or it is refused permanently. */
export function openSession(options: SessionOptions): void {
  const { api, machine, clientId, onNotice, onBegin, signal } = options;
  let failureCount = 0;

  const open = (): void => {
    const subscription = api.leases.session.subscribe(
      { clientId },
      {
        onStarted() {
          failureCount = 0;
          onBegin();
        },
        onData: onNotice,
        onError(thrown) {
          const error = callErrorOf(thrown);
          if (error instanceof LeaseholdCallError && !error.retryable) end();
          else openAgain();
        },
        onComplete: () => openAgain(),
      },
    );
    const end = (): void => {
      signal.removeEventListener('abort', end);
      subscription.unsubscribe();
    };
    const openAgain = (): void => {
      end();
      failureCount += 1;
      pauseBeforeRetry(machine, failureCount, signal).then(open, () => undefined);
    };
    signal.addEventListener('abort', end, { once: true });
  };

  outsideOfWork(open);
}
