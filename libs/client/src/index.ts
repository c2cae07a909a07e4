/** The client of a controller, for services and for Leasehold's own programs. */
import os from 'node:os';
import { LIMITS, newTimedId } from '@leasehold/keys-core';
import { createBootClock, type TickingClock } from '@leasehold/service-kit/boot-clock';
import { controllerUrlsOf } from '@leasehold/service-kit/controllers';
import { systemIds } from '@leasehold/service-kit/system-ids';
import { setting } from './config.ts';
import { leasePropagationLink } from './context/propagation.ts';
import { createGateway } from './gateway.ts';
import { assertInput, clientShape } from './inputs.ts';
import { createBackends, createKeys } from './keys.ts';
import { Background } from './lease/calls.ts';
import { createLeaseFaces } from './lease/lease-faces.ts';
import { type Leasehold, leasesOf } from './leasehold-parts.ts';
import type { Machine } from './machine.ts';
import { controllerSource } from './observing.ts';
import { createReservations } from './reservations.ts';
import { createControllerClient } from './transport/controller-client.ts';
import { closedLink, plainInputLink, Reachability } from './transport/links.ts';

export type { ErrorCode } from '@leasehold/keys-core';
export type { TRPCLink } from '@trpc/client';
export type { AnyRouter } from '@trpc/server';
export type { Lease, ReleaseReport } from './lease/lease.ts';
export type {
  AcquireOptions,
  LeaseDefinition,
  LeaseDefinitionOptions,
  TryAcquireOptions,
} from './lease/lease-definition.ts';
export type { AcquireAll, AcquireAllOptions, LeaseName } from './lease/acquire-all.ts';
export { keepUntilReleased, type LeaseGrant, type LeasesTogether } from './lease/held-together.ts';
export type { LeaseAttempt } from './lease/acquire.ts';
export type { WaitingFor } from './lease/attempt.ts';
export type { InvalidSegment, ValidNamespace, ValidSegment } from './lease/lease-definition.ts';
export {
  EnvironmentVetoedError,
  type EnvironmentOptions,
  type Environments,
  type EnvironmentWait,
  type EnvironmentWork,
  type VetoAnswer,
} from './environments.ts';
export type {
  Gateway,
  GatewayRevokeRequest,
  GatewaySignRequest,
  SignedGatewayUrl,
} from './gateway.ts';
export type { BackendState, Backends, ConnectedBackend, ConnectRequest, Keys } from './keys.ts';
export {
  LeaseHeldError,
  LeaseLost,
  LeaseRevoked,
  LeaseRevoking,
  LeaseSelfDeadlockError,
  LeaseUnconfirmedError,
  LeaseWaitTimeoutError,
  type HeldBy,
  type LeaseLossReason,
  type LeaseScope,
  type LostGrant,
} from './lease/lease.ts';
export type {
  Observation,
  ObservedHolder,
  ObservedScope,
  ObservedState,
  OtherHolder,
} from './observing.ts';
export type {
  ReservationDetail,
  ReservationFilter,
  ReservationKey,
  ReservationPage,
  Reservations,
} from './reservations.ts';
export {
  EnvironmentFrozenError,
  EnvironmentSupersededError,
  DatacenterUnreachableError,
  LeaseholdCallError,
  OutcomeUnknownError,
  ReservationKeyHeldError,
  ReservationStoreUnreachableError,
  UnreachableError,
  callErrorOf,
  type CallErrorOptions,
} from './transport/errors.ts';
export { currentSignal } from './context/work-context.ts';
export {
  createLeaseFetch,
  REMAINING_HEADER,
  remainingHeaders,
  remainingOf,
  type Fetch,
  type ReceivedHeaders,
  type ReceivedLease,
} from './context/propagation.ts';
export { leaseHeaders, leasePropagationLink } from './context/propagation.ts';
export { isUnreachable, leaseholdErrorOf, type LeaseholdError } from './transport/errors.ts';
export {
  createControllerClient,
  type ControllerApi,
  type ControllerClient,
  type ControllerClientOptions,
} from './transport/controller-client.ts';

/** The entry point of the client library: one connection, its leases, and other calls. */
export type { Leasehold } from './leasehold-parts.ts';

export interface LeaseholdOptions {
  /**
   * `http://host:port` of a controller or of a load balancer. An array, or a list with commas, names
   * several controllers of one database. The client stays with one for as long as it answers, and then
   * renews its leases through the next one. The path of the API, `/trpc`, may be at its end. By default the variable
   * `LEASEHOLD_URL` of the environment.
   */
  readonly url?: string | readonly string[] | undefined;
  /**
   * `lh_…`, of the role `client` or a higher one. By default the variable `LEASEHOLD_TOKEN` of the
   * environment.
   */
  readonly token?: string | undefined;
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
  /**
   * How long to wait for an answer, in addition to the time in line, and of a `connect` to the time until the backend
   * is ready. Milliseconds; by default 10 s.
   */
  readonly answerMs?: number | undefined;
  /**
   * How long a call may wait for the first connection. Then it fails with `request.unreachable`, which
   * names the address. Milliseconds; by default 3 s.
   */
  readonly connectMs?: number | undefined;
  /** The clock of the deadlines, by default the machine's time since boot. Tests pass their own. */
  readonly clock?: TickingClock | undefined;
  readonly onConnection?: ((state: 'open' | 'closed') => void) | undefined;
}

const ANSWER_MS = 10_000;
const CONNECT_MS = 3_000;

/** `reminders@host-7:4711`, cut to what a holder may have. */
function ownHolder(clientName: string): string {
  const characters = Array.from(`${clientName}@${os.hostname()}:${String(process.pid)}`);
  while (Buffer.byteLength(characters.join('')) > LIMITS.holderBytesMax) characters.pop();
  return characters.join('');
}

/**
 * Connects a service to Leasehold.
 * @throws {LeaseholdCallError} `config.invalid` if `url` or `token` is neither given nor set; `request.invalid` if `url`
 * is not an address or a list of addresses, or another option is not valid.
 */
export function createLeasehold(given: LeaseholdOptions = {}): Leasehold {
  const url = given.url ?? setting('LEASEHOLD_URL', 'url');
  const token = given.token ?? setting('LEASEHOLD_TOKEN', 'token');
  const options = { ...given, url, token };
  assertInput(clientShape, options, '');
  const clock = options.clock ?? createBootClock();
  const ids = systemIds();
  const machine: Machine = { clock, ...ids, uuid: () => newTimedId({ clock, ids }) };
  const { transport = 'ws', answerMs = ANSWER_MS, clientName = 'client' } = options;
  const holder = options.holder ?? ownHolder(clientName);
  const reachability = new Reachability({
    clock,
    transport,
    failures: () => controller.failures(),
    connectMs: options.connectMs ?? CONNECT_MS,
    url: [url].flat().join(', '),
  });
  const controller = createControllerClient({
    url,
    token,
    transport,
    connectionMs: () => reachability.patienceMs(),
    onAnswer: () => reachability.answered(),
    onConnection(state) {
      reachability.changed(state);
      if (state === 'open') faces.declarations.sendAll();
      options.onConnection?.(state);
    },
  });
  const { api } = controller;
  const database = controllerUrlsOf(url).toSorted().join();
  const background = new Background();
  const { closing } = background;
  const faces = createLeaseFaces({
    api,
    machine,
    answerMs,
    transport,
    reachability,
    background,
    url: database,
    holder,
  });
  const leases = leasesOf({
    machine,
    holder,
    faces,
    onDefine: (definition) => faces.declarations.add(definition),
    whenDeclared: (definitions, intent, ask) =>
      faces.declarations.whenDeclared(definitions, intent, ask),
    observed: controllerSource({ api, machine, transport, reachability }),
    closing,
    async close() {
      await faces.close();
      await controller.close();
    },
  });
  return {
    ...leases,
    acquireAll: faces.acquireAll,
    api: controller.apiWith([closedLink(closing), plainInputLink(), leasePropagationLink()]),
    keys: createKeys({ api, machine, answerMs, reachability, closing }),
    reservations: createReservations({ api, machine, answerMs, reachability, closing }),
    backends: createBackends({ api, machine, reachability, closing, transport }),
    gateway: createGateway({ api, machine, answerMs, reachability, closing }),
  };
}
