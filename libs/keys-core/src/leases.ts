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
} from './leases/lease-types.ts';
export { LEASE_SORTS } from './leases/lease-types.ts';
export { createLeaseService, type LeaseServiceDeps } from './leases/lease-service.ts';
export { createLeaseOperations, type LeaseOperationsDeps } from './leases/lease-operations.ts';
export { createRevocationWatch, type RevocationWatch } from './leases/revocations.ts';
export type { LeaseId, LeaseUseCase, Scope } from './leases/coordinator/use-case.ts';
export type {
  CoordinatedLease,
  CoordinatorAcquire,
  CoordinatorAcquireOrRenew,
  CoordinatorHeartbeat,
  LeaseCoordinator,
} from './leases/coordinator/coordinator-types.ts';
export {
  createLeaseCoordinator,
  type LeaseCoordinatorDeps,
} from './leases/coordinator/coordinator.ts';
export type { ReapCallback, StaleReap } from './leases/coordinator/reap-stale.ts';
export { fencedTransaction, type FencedOptions } from './grants/fenced-transaction.ts';
export type {
  CoordinatorStore,
  GuestDatabase,
  GuestStore,
  GuestTransaction,
} from './postgres/service/guest-transaction.ts';
export type { GuestSql } from './postgres/service/prisma-guests.ts';
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
} from './environments/environment-lease.ts';
