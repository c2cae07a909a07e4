/** What a service sees of Leasehold, put together from its parts. */
import {
  createLeaseFetch,
  receiveRemaining,
  remainingOf,
  runReceived,
  type Fetch,
  type ReceivedHeaders,
  type ReceivedLease,
} from './context/propagation.ts';
import {
  createEnvironments,
  intentOf,
  withEnvironmentLease,
  type Environments,
  type EnvironmentWork,
} from './environments.ts';
import type { Gateway } from './gateway.ts';
import type { Backends, Keys } from './keys.ts';
import type { AcquireAll } from './lease/acquire-all.ts';
import {
  createLeaseDefinition,
  type LeaseDefinition,
  type LeaseDefinitionOptions,
  type ValidNamespace,
  type WhenDeclared,
} from './lease/lease-definition.ts';
import type { Faces } from './lease/lease-faces.ts';
import type { Machine } from './machine.ts';
import { observe, type Observation, type ObservedScope, type ObservedSource } from './observing.ts';
import type { Reservations } from './reservations.ts';
import type { ControllerApi } from './transport/controller-client.ts';

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
  /**
   * Acquires up to 64 leases together: all of them, or none. It waits in the line of each for up to `waitMs`, by
   * default 5 s, and two such calls never wait for each other. `ttlMs`, by default 30 s, and all other options are
   * the same for all of the leases.
   * @throws {LeaseWaitTimeoutError} with the lease that did not become free in time, or `LeaseHeldError` with `waitMs`
   * 0; `LeaseSelfDeadlockError` if this work holds one of them; `LeaseholdCallError` with `request.invalid` for a lease
   * that is in the list twice; otherwise as `LeaseDefinition.acquire`.
   */
  readonly acquireAll: AcquireAll;
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
  /**
   * Who holds a lease, an environment or a key: first the present state, then each change, null while nobody
   * holds it. A reader that takes its time misses states, and never the newest. It begins again after a lost
   * connection; until then it tells nothing. That a holder has died is told when its grant has expired, within a
   * second or two unless somebody waits for it. Ends with the loop over it, or silently when `signal` aborts.
   *
   * Of the controller's own datacenter alone, and not with the transport `http`.
   * @throws {LeaseholdCallError} `request.invalid`. The loop also throws `auth.forbidden` for a namespace that the token
   * is not limited to, `UnreachableError` if no controller was ever reached, and `client.closed`.
   */
  observe(
    scope: ObservedScope,
    options?: { readonly signal?: AbortSignal | undefined },
  ): Observation;
  /** Tokens of people who reach a key from a browser. */
  readonly gateway: Gateway;
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
   * Ends the connection, within a second. Calls that wait and later ones fail with `client.closed`, and what
   * they were granted meanwhile is given back. The signals of leases that are still held abort. Their grants
   * are not released, because their work may not have stopped yet: release a lease first if it must be free
   * at once.
   */
  close(): Promise<void>;
}

/** The part of a client that is about leases and environments. */
export type LeasesOfClient = Omit<
  Leasehold,
  'acquireAll' | 'api' | 'keys' | 'reservations' | 'backends' | 'gateway'
>;

export interface LeasesParts {
  readonly observed: ObservedSource;
  /** Aborts when the client is closed. */
  readonly closing: AbortSignal;
  readonly machine: Machine;
  /** The holder of leases that name no other. */
  readonly holder: string;
  readonly faces: Pick<Faces, 'leases' | 'environments'>;
  readonly onDefine: (definition: LeaseDefinition) => void;
  readonly whenDeclared: WhenDeclared;
  readonly close: () => Promise<void>;
}

export function leasesOf(parts: LeasesParts): LeasesOfClient {
  const { machine, holder, faces, onDefine, whenDeclared, observed, closing } = parts;
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => (closed ??= parts.close());
  const { leases, environments } = faces;
  return {
    defineLease(namespace, options) {
      const definition = createLeaseDefinition(
        leases,
        holder,
        { ...options, namespace },
        whenDeclared,
      );
      onDefine(definition);
      return definition;
    },
    environments: createEnvironments(environments, holder),
    withEnvironmentLease: async (environment, work) =>
      withEnvironmentLease(environments, intentOf(holder, environment, work, 'work'), work),
    observe: (scope, options = {}) => observe(observed, scope, options, closing),
    fetch: createLeaseFetch(),
    receiveLease: (headers, requestSignal) =>
      receiveRemaining(machine.clock, remainingOf(headers), requestSignal),
    runWithRemaining: (remainingMs, requestSignal, fn) =>
      runReceived(receiveRemaining(machine.clock, remainingMs, requestSignal), fn),
    close,
    [Symbol.asyncDispose]: close,
  };
}
