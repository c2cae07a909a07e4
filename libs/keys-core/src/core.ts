/** What `@leasehold/core` is made of: leases for a service that shares the database. */
export { ERROR_CODES, LeaseError, type ErrorCode } from './kernel/errors.ts';
export type { Clock } from './kernel/clock.ts';
export type { GrantRef, RefusalReason, ReleaseOutcome, SlotMode } from './kernel/lease.ts';
export type {
  AnyUseCase,
  CoordinatedLease,
  CoordinatorAcquire,
  CoordinatorAcquireAll,
  CoordinatorAcquireOrRenew,
  CoordinatorHeartbeat,
  LeaseCoordinator,
  LeaseId,
  LeaseUseCase,
  Scope,
} from './leases/coordinator-types.ts';
export type { HeldAnswer, LeaseDeadlines } from './leases/lease-types.ts';
export { createLeaseCoordinator } from './leases/coordinator.ts';
export type { ReapCallback, StaleReap } from './leases/coordinator-types.ts';
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
} from './leases/environment-lease.ts';
export { fencedTransaction, type FencedOptions } from './grants/fenced-transaction.ts';
export { createLeaseStore } from './grants/lease-store.ts';
export {
  type PgClientLike,
  pgDatabase,
  type PgPoolLike,
  type PgResult,
  type PgTransaction,
  type PrismaClientLike,
  prismaDatabase,
  type PrismaTransaction,
  type ServiceDatabase,
  type ServiceTransaction,
} from './postgres/service-database.ts';
export { createServiceStore } from './postgres/service-store.ts';
