/** What a service holds: one connection, its leases, and the calls that go with them. */
import { randomBytes, randomUUID } from 'node:crypto';
import os from 'node:os';
import { createBootClock, type TickingClock } from '@leasehold/service-kit/boot-clock';
import { controllerUrlsOf } from '@leasehold/service-kit/controllers';
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
import { createControllerClient, type ControllerApi } from './controller-client.ts';
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
import type { ValidNamespace } from './lease/segments.ts';
import type { Machine } from './machine.ts';
import { createReservations, type Reservations } from './reservations.ts';
import { Reachability } from './reachability.ts';

export interface LeaseholdOptions {
  /**
   * `http://host:port` of a controller, or of what is in front of several. An array, or a list with
   * commas, names several controllers of one database: one is kept as long as it answers, and leases
   * go on being renewed through another one when it does not.
   */
  readonly url: string | readonly string[];
  /** `lh_…`, of the role `client` or a higher one. */
  readonly token: string;
  /**
   * `ws` unless said: one connection, which is created again when it breaks, over which revocations are
   * received at once. With `http` each call is separate, and a revocation arrives with the next
   * renewal; so is one of a lease in another datacenter than the controller's, over both.
   */
  readonly transport?: 'ws' | 'http' | undefined;
  /** Who is said to hold the leases of this process; `clientName` with host and process id unless said. */
  readonly holder?: string | undefined;
  /** The name of the service. */
  readonly clientName?: string | undefined;
  /** How long an answer is waited for, beyond the time in line; 10 s unless said. */
  readonly answerMs?: number | undefined;
  /** The clock that deadlines are kept by; that of the machine unless a test brings its own. */
  readonly clock?: TickingClock | undefined;
  readonly onConnection?: ((state: 'open' | 'closed') => void) | undefined;
}

export interface Leasehold extends AsyncDisposable {
  /** Every procedure of the contract, typed. Calls of work under a lease end with the lease. */
  readonly api: ControllerApi;
  /**
   * Declares a kind of lease: once, where the module loads. The controller is told in the background.
   * A literal segment that is empty or contains `.` is refused by the compiler, any other when it runs.
   * @throws {LeaseholdCallError} `request.invalid`.
   */
  defineLease<const Namespace extends readonly string[]>(
    namespace: Namespace & ValidNamespace<Namespace>,
    options?: LeaseDefinitionOptions,
  ): LeaseDefinition;
  readonly environments: Environments;
  /**
   * Takes an environment, asks `veto` why the action may not run, records with `record` that it is in
   * use, and releases. They run under the lease and are not one transaction: a process that stands
   * still between them may record late. Where that matters and the database is shared, use
   * `withEnvironmentLease` of `@leasehold/keys-core`.
   * @throws {LeaseHeldError} who holds it; `EnvironmentVetoedError` with the reasons; `LeaseLost` when
   * the lease ran out before `record` was done; what `veto` and `record` throw.
   */
  withEnvironmentLease<T>(
    environment: string | readonly string[],
    work: EnvironmentWork<T>,
  ): Promise<T>;
  readonly keys: Keys;
  /** Which datacenter a key lives in. */
  readonly reservations: Reservations;
  readonly backends: Backends;
  /** See `createLeaseFetch`: `fetch` that takes the lease along. */
  readonly fetch: Fetch;
  /**
   * For a service that is called by one that holds a lease: what is left of it by the headers of the
   * request, counted by this machine's clock. `requestSignal` is to abort when the caller hangs up.
   */
  receiveLease(headers: ReceivedHeaders, requestSignal?: AbortSignal): ReceivedLease;
  /** As {@link receiveLease} with a number at hand; runs `fn` in it. */
  runWithRemaining<T>(
    remainingMs: number | undefined,
    requestSignal: AbortSignal | undefined,
    fn: (signal: AbortSignal) => T,
  ): T;
  /**
   * Ends the connection. The signals of leases that are still held abort; their grants are not given
   * back, because the work under them may not have stopped yet: release first what is to be free at
   * once.
   */
  close(): Promise<void>;
}

const ANSWER_MS = 10_000;
const HOLDER_LENGTH_MAX = 200;

/**
 * Connects a service to Leasehold.
 * @throws {LeaseholdCallError} `request.invalid` when `url` is not one or several addresses.
 */
export function createLeasehold(options: LeaseholdOptions): Leasehold {
  const machine = machineOf(options.clock);
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

const RANDOM_BYTES = 6;

function machineOf(clock: TickingClock | undefined): Machine {
  return {
    clock: clock ?? createBootClock(),
    uuid: () => randomUUID(),
    random: () => randomBytes(RANDOM_BYTES).readUIntBE(0, RANDOM_BYTES) / 2 ** (8 * RANDOM_BYTES),
  };
}
