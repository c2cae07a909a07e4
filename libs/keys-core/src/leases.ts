/** The leases and environments faces: FTL's and keel's leases over the kernel. */
export type {
  AcquireAnswer,
  AcquireInput,
  CallerLife,
  ContentionView,
  DatedPage,
  GrantedLease,
  HeldAnswer,
  LeaseDeadlines,
  LeaseDeclaration,
  LeaseListInput,
  LeaseOperations,
  LeasePage,
  LeaseRenewResult,
  LeaseService,
  LeaseTree,
  LeaseTreeNode,
  LeaseView,
  ReleaseInput,
  RevocationNotice,
} from './faces/leases/lease-types.ts';
export { LEASE_SORTS } from './faces/leases/lease-types.ts';
export { createLeaseService, type LeaseServiceDeps } from './faces/leases/lease-service.ts';
export {
  createLeaseOperations,
  type LeaseOperationsDeps,
} from './faces/leases/lease-operations.ts';
export { createRevocationWatch, type RevocationWatch } from './faces/leases/revocations.ts';
export type { LeaseId, LeaseUseCase, Scope } from './faces/leases/use-case.ts';
export type {
  CoordinatedLease,
  CoordinatorAcquire,
  CoordinatorAcquireOrRenew,
  CoordinatorHeartbeat,
  LeaseCoordinator,
} from './faces/leases/coordinator-types.ts';
export { createLeaseCoordinator, type LeaseCoordinatorDeps } from './faces/leases/coordinator.ts';
export type { ReapCallback, StaleReap } from './faces/leases/reap-stale.ts';
export { fencedTransaction, type FencedOptions } from './store/fenced-transaction.ts';
export type {
  CoordinatorStore,
  GuestDatabase,
  GuestStore,
  GuestTransaction,
} from './store/guest-transaction.ts';
export type { GuestSql } from './store/prisma-guests.ts';
export {
  ENVIRONMENT_LEASE_MS,
  tryAcquireEnvironment,
  withEnvironmentLease,
  type Environment,
  type EnvironmentAcquire,
  type EnvironmentLease,
  type EnvironmentLeaseDeps,
  type EnvironmentRequest,
  type EnvironmentUse,
  type EnvironmentUseOutcome,
} from './faces/environments/environment-lease.ts';
