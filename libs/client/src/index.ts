/** The client of a controller, for services and for Leasehold's own programs. */
export type { ErrorCode } from '@leasehold/keys-core';
export type { TRPCLink } from '@trpc/client';
export type { AnyRouter } from '@trpc/server';
export { createLeasehold, type Leasehold, type LeaseholdOptions } from './leasehold.ts';
export type { Lease, ReleaseReport } from './lease/lease.ts';
export type {
  AcquireOptions,
  LeaseDefinition,
  LeaseDefinitionOptions,
  TryAcquireOptions,
} from './lease/lease-definition.ts';
export type { AcquireAll, AcquireAllOptions, LeaseName } from './lease/acquire-all.ts';
export type { LeaseGrant, LeasesTogether } from './lease/held-together.ts';
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
export type { Observation, ObservedHolder, ObservedScope, ObservedState } from './observing.ts';
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
