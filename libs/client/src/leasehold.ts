/** The entry point of the client library: one connection, its leases, and other calls. */
import os from 'node:os';
import { newTimedId } from '@leasehold/keys-core';
import { createBootClock, type TickingClock } from '@leasehold/service-kit/boot-clock';
import { controllerUrlsOf } from '@leasehold/service-kit/controllers';
import { systemIds } from '@leasehold/service-kit/system-ids';
import { leasePropagationLink } from './context/propagation-link.ts';
import {
  createLeaseFetch,
  receiveRemaining,
  remainingOf,
  runReceived,
  type Fetch,
  type ReceivedHeaders,
  type ReceivedLease,
} from './context/propagation.ts';
import { createControllerClient, type ControllerApi } from './transport/controller-client.ts';
import {
  createEnvironments,
  withEnvironmentLease,
  intentOf,
  type Environments,
  type EnvironmentWork,
} from './environments.ts';
import { createBackends, createKeys, type Backends, type Keys } from './keys.ts';
import {
  createLeaseDefinition,
  type LeaseDefinition,
  type LeaseDefinitionOptions,
} from './lease/lease-definition.ts';
import { createLeaseFaces } from './lease/lease-faces.ts';
import type { ValidNamespace } from './lease/wire/segments.ts';
import type { Machine } from './machine.ts';
import { createReservations, type Reservations } from './reservations.ts';
import { Reachability } from './transport/reachability.ts';

export interface LeaseholdOptions {
  /**
   * `http://host:port` of a controller or of a load balancer. An array, or a list with commas, names
   * several controllers of one database. The client stays with one for as long as it answers, and then
   * renews its leases through the next one.
   */
  readonly url: string | readonly string[];
  /** `lh_…`, of the role `client` or a higher one. */
  readonly token: string;
  /**
   * By default `ws`: one connection, which is opened again when it breaks. The client receives
   * revocations over it at once. With `http` each call is separate, and a revocation arrives with the
   * next renewal. Both transports do the latter for leases in another datacenter than the controller's.
   */
  readonly transport?: 'ws' | 'http' | undefined;
  /** The holder of the leases of this process, by default `clientName@host:pid`. */
  readonly holder?: string | undefined;
  /** The name of the service. */
  readonly clientName?: string | undefined;
  /** How long to wait for an answer, in addition to the time in line. Milliseconds; by default 10 s. */
  readonly answerMs?: number | undefined;
  /** The clock of the deadlines, by default the machine's time since boot. Tests pass their own. */
  readonly clock?: TickingClock | undefined;
  readonly onConnection?: ((state: 'open' | 'closed') => void) | undefined;
}

export interface Leasehold extends AsyncDisposable {
  /** Every procedure of the contract, typed. Calls within work under a lease are cancelled with it. */
  readonly api: ControllerApi;
  /**
   * Declares a kind of lease. Call it once, when the module loads; the client declares it to the
   * controller in the background. The compiler refuses a literal segment that is empty or contains
   * `.`. Other segments are checked at run time.
   * @throws {LeaseholdCallError} `request.invalid`.
   */
  defineLease<const Namespace extends readonly string[]>(
    namespace: Namespace & ValidNamespace<Namespace>,
    options?: LeaseDefinitionOptions,
  ): LeaseDefinition;
  readonly environments: Environments;
  /**
   * Acquires an environment, calls `veto`, then `record` if there is no veto, and releases it. They run
   * under the lease but are not one transaction: a process that is paused between them may record late.
   * If the database is shared, `withEnvironmentLease` of `@leasehold/core` is one transaction.
   * @throws {LeaseHeldError} with the holder; `EnvironmentVetoedError` with the reasons; `LeaseLost` if
   * the lease expired before `record` was done; what `veto` and `record` throw.
   */
  withEnvironmentLease<T>(
    environment: string | readonly string[],
    work: EnvironmentWork<T>,
  ): Promise<T>;
  readonly keys: Keys;
  /** Which datacenter a key lives in. */
  readonly reservations: Reservations;
  readonly backends: Backends;
  /** `fetch` that sends the remaining time of the lease, see `createLeaseFetch`. */
  readonly fetch: Fetch;
  /**
   * For a service that a lease holder calls: reads the remaining time of the caller's lease from the
   * headers, and counts it by this machine's clock. `requestSignal` must abort when the caller hangs up.
   */
  receiveLease(headers: ReceivedHeaders, requestSignal?: AbortSignal): ReceivedLease;
  /** As {@link receiveLease}, for a known remaining time in milliseconds. Runs `fn` in its context. */
  runWithRemaining<T>(
    remainingMs: number | undefined,
    requestSignal: AbortSignal | undefined,
    fn: (signal: AbortSignal) => T,
  ): T;
  /**
   * Ends the connection. The signals of leases that are still held abort. Their grants are not released,
   * because their work may not have stopped yet: release a lease first if it must be free at once.
   */
  close(): Promise<void>;
}

const ANSWER_MS = 10_000;
const HOLDER_LENGTH_MAX = 200;

/**
 * Connects a service to Leasehold.
 * @throws {LeaseholdCallError} `request.invalid` if `url` is not an address or a list of addresses.
 */
export function createLeasehold(options: LeaseholdOptions): Leasehold {
  const clock = options.clock ?? createBootClock();
  const ids = systemIds();
  const machine: Machine = { clock, ...ids, uuid: () => newTimedId({ clock, ids }) };
  const { url, transport = 'ws', answerMs = ANSWER_MS, clientName = 'client' } = options;
  const holder =
    options.holder ??
    `${clientName}@${os.hostname()}:${String(process.pid)}`.slice(0, HOLDER_LENGTH_MAX);
  const reachability = new Reachability(machine.clock, transport);
  const controller = createControllerClient({
    url,
    token: options.token,
    transport,
    onConnection(state) {
      reachability.changed(state);
      if (state === 'open') faces.declarations.sendAll();
      options.onConnection?.(state);
    },
  });
  const { api } = controller;
  const database = controllerUrlsOf(url).toSorted().join();
  const faces = createLeaseFaces({
    api,
    machine,
    url: database,
    answerMs,
    transport,
    reachability,
  });
  const { leases, environments } = faces;

  const close = async (): Promise<void> => {
    await faces.close();
    await controller.close();
  };

  return {
    api: controller.apiWith([leasePropagationLink()]),
    defineLease(namespace, definitionOptions) {
      const definition = createLeaseDefinition(leases, holder, { ...definitionOptions, namespace });
      faces.declarations.add(definition);
      return definition;
    },
    environments: createEnvironments(environments, holder),
    withEnvironmentLease: async (environment, work) =>
      withEnvironmentLease(environments, intentOf(holder, environment, work), work),
    keys: createKeys({ api, machine }),
    reservations: createReservations({ api, machine, answerMs }),
    backends: createBackends(api),
    fetch: createLeaseFetch(),
    receiveLease: (headers, requestSignal) =>
      receiveRemaining(machine.clock, remainingOf(headers), requestSignal),
    runWithRemaining: (remainingMs, requestSignal, fn) =>
      runReceived(receiveRemaining(machine.clock, remainingMs, requestSignal), fn),
    close,
    [Symbol.asyncDispose]: close,
  };
}
