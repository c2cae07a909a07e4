/** What apps and other slices may use. */
export { heldAnswer } from './acquire/acquire-answers.ts';
export { createWhileLeader, type WhileLeader } from './coordinator/while-held/while-leader.ts';
export { assertTtl } from './acquire/deadlines.ts';
export { createLeaseOperations } from './lease-operations.ts';
export { createLeaseService } from './lease-service.ts';
export {
  type AcquireAnswer,
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
  type FailingCallback,
  type LeaseDeclaration,
  type LeaseListInput,
  type LeaseOperations,
  type LeaseTree,
  type LeaseView,
} from './lease-views.ts';
export { createRevocationWatch, type RevocationWatch } from './revocations.ts';
export { countWaiters } from './sql/contention.ts';
export { countFailingCallbacks, failingCallbacksSince } from './sql/failing-callbacks.ts';
export { dropOldDeclarations } from './sql/declarations.ts';
export type { NamespaceCounts as LeaseTreeNode } from '../lists/index.ts';
