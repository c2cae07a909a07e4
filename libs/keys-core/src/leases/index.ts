/** What apps and other slices may use. */
export { assertTtl, heldAnswer } from './acquire-answers.ts';
export { createWhileLeader, type WhileLeader } from './while-leader.ts';
export {
  createFreezeService,
  type FreezeInput,
  type FreezeListInput,
  type FreezeService,
  type FreezeView,
} from './freeze-service.ts';
export { createLeaseOperations } from './lease-operations.ts';
export { createLeaseService } from './acquiring.ts';
export { createLeasesTogether } from './acquiring-all.ts';
export type {
  AcquireAllAnswer,
  AcquireAnswer,
  Blocker,
  CallerLife,
  ContentionHolder,
  ContentionView,
  EnvironmentQueue,
  FailingCallback,
  GrantedLease,
  HeldAllAnswer,
  HeldAnswer,
  LeaseDeadlines,
  LeaseDeclaration,
  LeaseListInput,
  LeaseOperations,
  LeaseRenewResult,
  LeaseService,
  LeasesTogether,
  LeaseTree,
  LeaseView,
  LeaseWhy,
  MostWaitedView,
  OppositeOrders,
  PermitsInForce,
  PoolView,
  QueuedView,
  ReleaseInput,
  RevocationNotice,
  SupersededView,
  WaitingAnswer,
  MostWaitedPage,
} from './lease-types.ts';
export { createRevocationWatch, type RevocationWatch } from './revocations.ts';
export { countFailingCallbacks, countWaiters, failingCallbacksSince } from './sql/contention.ts';
export { dropOldDeclarations } from './sql/declarations.ts';
export { readPermitShares } from './sql/read-pool.ts';
export { removeOldFreezes } from './sql/freezes.ts';
export type { NamespaceCounts as LeaseTreeNode } from '../lists/index.ts';
