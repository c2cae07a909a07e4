/** What apps and other slices may use. */
export { heldAnswer } from './acquire/acquire-answers.ts';
export type {
  CoordinatedLease,
  CoordinatorAcquire,
  CoordinatorAcquireOrRenew,
  CoordinatorHeartbeat,
  LeaseCoordinator,
} from './coordinator/coordinator-types.ts';
export { createLeaseCoordinator, type LeaseCoordinatorDeps } from './coordinator/coordinator.ts';
export { errorText, type ReapCallback, type StaleReap } from './coordinator/reap-stale.ts';
export type { LeaseId, LeaseUseCase, Scope } from './coordinator/use-case.ts';
export { createWhileLeader, type WhileLeader } from './coordinator/while-held/while-leader.ts';
export { assertTtl } from './acquire/deadlines.ts';
export { createLeaseOperations, type LeaseOperationsDeps } from './lease-operations.ts';
export { createLeaseService, type LeaseServiceDeps } from './lease-service.ts';
export {
  type AcquireAnswer,
  type AcquireInput,
  type CallerLife,
  type GrantedLease,
  type HeldAnswer,
  type LeaseDeadlines,
  type LeaseRenewResult,
  type LeaseService,
  type ReleaseInput,
  type RevocationNotice,
} from './lease-types.ts';
export {
  type ContentionView,
  type LeaseDeclaration,
  type LeaseListInput,
  type LeaseOperations,
  type LeasePage,
  type LeaseTree,
  type LeaseTreeNode,
  type LeaseView,
} from './lease-views.ts';
export { createRevocationWatch, type RevocationWatch } from './revocations.ts';
export { countWaiters } from './sql/contention.ts';
export { dropOldDeclarations } from './sql/declarations.ts';
