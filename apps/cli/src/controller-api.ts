/** What commands send to the API and show of its answers, named once. The types come from the router. */
import { setTimeout as delay } from 'node:timers/promises';
import type { ControllerApi } from '@leasehold/client';
import { isPassing } from './failures.ts';

type ItemOf<Query extends (...args: never[]) => Promise<{ items: readonly unknown[] }>> = Awaited<
  ReturnType<Query>
>['items'][number];

type InputOf<Query extends (...args: never[]) => unknown> = NonNullable<
  Exclude<Parameters<Query>[0], void>
>;

export type EventView = ItemOf<ControllerApi['keys']['history']['query']>;
export type RefusalView = ItemOf<ControllerApi['refusals']['list']['query']>;
export type WebhookView = NonNullable<
  Awaited<ReturnType<ControllerApi['webhook']['get']['query']>>
>;
export type KeyView = NonNullable<Awaited<ReturnType<ControllerApi['keys']['get']['query']>>>;
export type LeaseView = ItemOf<ControllerApi['leases']['list']['query']>;
export type PoolView = NonNullable<LeaseView['pool']>;
export type LeaseTreeNode = ItemOf<ControllerApi['leases']['tree']['query']>;
export type LeaseWaiterView = ItemOf<ControllerApi['leases']['waiters']['query']>;
export type WaitView = ItemOf<ControllerApi['leases']['contention']['query']>;
export type EnvironmentQueue = Awaited<ReturnType<ControllerApi['environments']['queue']['query']>>;
export type LeaseWhy = Awaited<ReturnType<ControllerApi['leases']['why']['query']>>;
export type MostWaitedPage = Awaited<ReturnType<ControllerApi['leases']['mostWaited']['query']>>;
export type OppositeOrders = MostWaitedPage['opposite'][number];
export type FailingCallback = ItemOf<ControllerApi['leases']['failingCallbacks']['query']>;
export type FreezeView = ItemOf<ControllerApi['environments']['freezes']['query']>;
export type DroneView = ItemOf<ControllerApi['drones']['list']['query']>;
export type BackendView = ItemOf<ControllerApi['backends']['list']['query']>;
export type BackendDetail = Awaited<ReturnType<ControllerApi['backends']['get']['query']>>;
export type BackendLogsInput = InputOf<ControllerApi['backends']['logs']['query']>;
export type ReservationView = ItemOf<ControllerApi['reservations']['list']['query']>;
export type PendingMove = NonNullable<
  Awaited<ReturnType<ControllerApi['reservations']['pendingMove']['query']>>
>;
export type DatacentersView = Awaited<ReturnType<ControllerApi['datacenters']['list']['query']>>;
export type DatacenterView = ItemOf<ControllerApi['datacenters']['list']['query']>;
export type AuditView = ItemOf<ControllerApi['audit']['list']['query']>;
export type FoundAnswer = Awaited<ReturnType<ControllerApi['search']['find']['query']>>;
export type FoundView = FoundAnswer['items'][number];
export type TokenView = ItemOf<ControllerApi['tokens']['list']['query']>;
export type TokenDetails = Awaited<ReturnType<ControllerApi['tokens']['get']['query']>>;
export type { BackendStateView } from '@leasehold/keys-core/fleet';

export type AuditListInput = InputOf<ControllerApi['audit']['list']['query']>;
export type RefusalListInput = InputOf<ControllerApi['refusals']['list']['query']>;
export type KeyListInput = InputOf<ControllerApi['keys']['list']['query']>;
export type LeaseListInput = InputOf<ControllerApi['leases']['list']['query']>;
export type FreezeInput = InputOf<ControllerApi['environments']['freeze']['mutate']>;
export type FindInput = InputOf<ControllerApi['search']['find']['query']>;
export type DroneListInput = InputOf<ControllerApi['drones']['list']['query']>;
export type BackendListInput = InputOf<ControllerApi['backends']['list']['query']>;
export type ReservationListInput = InputOf<ControllerApi['reservations']['list']['query']>;
export type EventListInput = InputOf<ControllerApi['events']['list']['query']>;
export type EventWatchInput = InputOf<ControllerApi['events']['watch']['subscribe']>;
export type GatewaysView = Awaited<ReturnType<ControllerApi['gateway']['list']['query']>>;
export type GatewayView = ItemOf<ControllerApi['gateway']['list']['query']>;
export type ConnectAnswer = Awaited<ReturnType<ControllerApi['keys']['connect']['mutate']>>;
export type ConnectInput = InputOf<ControllerApi['keys']['connect']['mutate']>;

/** What a subscription tells about itself, as tRPC takes it. */
interface Listener<Data> {
  readonly onData: (data: Data) => void;
  readonly onError: (error: unknown) => void;
  readonly onComplete: () => void;
}

const RETRY_MS = 1_000;

/**
 * Follows a subscription until it is complete, or `stop` aborts. After a failure that passes by itself it subscribes
 * again, unless `onFailure` throws: `subscribe` is to begin where the data so far has ended.
 * @throws the error that ends it.
 */
export async function follow<Data>(
  stop: AbortSignal,
  subscribe: (listener: Listener<Data>) => { unsubscribe(): void },
  onData: (data: Data) => void,
  onFailure?: (error: unknown) => Promise<void>,
): Promise<void> {
  while (!stop.aborted) {
    try {
      await followOnce(stop, subscribe, onData);
      return;
    } catch (error) {
      if (!isPassing(error)) throw error;
      await onFailure?.(error);
      await delay(RETRY_MS, undefined, { signal: stop }).catch(() => undefined);
    }
  }
}

function followOnce<Data>(
  stop: AbortSignal,
  subscribe: (listener: Listener<Data>) => { unsubscribe(): void },
  onData: (data: Data) => void,
): Promise<void> {
  const over = new AbortController();
  return new Promise<void>((resolve, reject) => {
    const subscription = subscribe({ onData, onError: reject, onComplete: resolve });
    const leave = (): void => {
      subscription.unsubscribe();
      resolve();
    };
    stop.addEventListener('abort', leave, { signal: over.signal });
  }).finally(() => over.abort());
}
