import type { Logger } from '@leasehold/service-kit';

/** Whether the reservation store can be reached, and since when it cannot: an ISO-8601 UTC instant. */
export interface StoreStatus {
  readonly kind: 'postgres' | 'etcd';
  readonly isReachable: boolean;
  readonly since: string | null;
}

/** The outcome of calls to etcd; every change is logged once. */
export function createStoreStatus(log: Logger): {
  readonly note: (failure: unknown) => void;
  readonly now: () => StoreStatus;
} {
  let since: string | null = null;
  return {
    note(failure) {
      const isReached = failure === undefined;
      if (isReached === (since === null)) return;
      since = isReached ? null : new Date().toISOString();
      if (isReached) log.info('etcd answers again');
      else log.warn({ err: failure }, 'etcd does not answer: no fresh key gets a home from here');
    },
    now: () => ({ kind: 'etcd', isReachable: since === null, since }),
  };
}
