/** What `@leasehold/core` is made of: leases for a service that shares the database. */
export { ERROR_CODES, LeaseError, type ErrorCode } from './kernel/errors.ts';
export type { Clock, IdSource } from './kernel/clock.ts';
export type { GrantRef, RefusalReason, ReleaseOutcome } from './kernel/outcomes.ts';
export type { LeaseId, LeaseUseCase, Scope } from './faces/leases/use-case.ts';
export type {
  CoordinatedLease,
  CoordinatorAcquire,
  CoordinatorAcquireOrRenew,
  CoordinatorHeartbeat,
  LeaseCoordinator,
} from './faces/leases/coordinator-types.ts';
export type { HeldAnswer, LeaseDeadlines } from './faces/leases/lease-types.ts';
export { createLeaseCoordinator } from './faces/leases/coordinator.ts';
export type { ReapCallback, StaleReap } from './faces/leases/reap-stale.ts';
export {
  ENVIRONMENT_LEASE_MS,
  tryAcquireEnvironment,
  withEnvironmentLease,
  type Environment,
  type EnvironmentAcquire,
  type EnvironmentLease,
  type EnvironmentRequest,
  type EnvironmentUse,
  type EnvironmentUseOutcome,
} from './faces/environments/environment-lease.ts';
export { fencedTransaction, type FencedOptions } from './store/fenced-transaction.ts';
export { createLeaseStore } from './store/lease-store.ts';
export {
  pgDatabase,
  type PgClientLike,
  type PgPoolLike,
  type PgResult,
  type PgTransaction,
} from './store/service/pg-database.ts';
export {
  prismaDatabase,
  type PrismaClientLike,
  type PrismaTransaction,
} from './store/service/prisma-database.ts';
export type { ServiceDatabase, ServiceTransaction } from './store/service/service-database.ts';
export { createServiceStore } from './store/service/service-store.ts';
