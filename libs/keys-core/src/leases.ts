/** The leases and environments faces: FTL's and keel's leases over the kernel. */
export type {
  AcquireAnswer,
  AcquireInput,
  CallerLife,
  ContentionView,
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
