/**
 * `@leasehold/core`: leases for a service that uses the same PostgreSQL as Leasehold. Its writes under a
 * lease are exact: they are in one transaction with the lease, on the service's own client.
 */
import {
  createLeaseCoordinator,
  createLeaseStore,
  createServiceStore,
  fencedTransaction,
  LeaseError,
  tryAcquireEnvironment,
  withEnvironmentLease,
  type Clock,
  type Environment,
  type EnvironmentAcquire,
  type EnvironmentRequest,
  type EnvironmentUse,
  type EnvironmentUseOutcome,
  type FencedOptions,
  type GrantRef,
  type LeaseCoordinator,
  type ServiceDatabase,
} from '@leasehold/keys-core/core';
import { createBootClock } from '@leasehold/service-kit/boot-clock';
import { DEFAULT_SCHEMA, schemaProblem } from '@leasehold/service-kit/database-url';
import { systemIds } from '@leasehold/service-kit/system-ids';

export {
  ENVIRONMENT_LEASE_MS,
  ERROR_CODES,
  LeaseError,
  pgDatabase,
  prismaDatabase,
  type AnyUseCase,
  type Clock,
  type CoordinatedLease,
  type CoordinatorAcquire,
  type CoordinatorAcquireAll,
  type CoordinatorAcquireOrRenew,
  type CoordinatorHeartbeat,
  type Environment,
  type EnvironmentAcquire,
  type EnvironmentLease,
  type EnvironmentRequest,
  type EnvironmentUse,
  type EnvironmentUseOutcome,
  type ErrorCode,
  type FencedOptions,
  type GrantRef,
  type HeldAnswer,
  type LeaseCoordinator,
  type LeaseDeadlines,
  type LeaseId,
  type LeaseUseCase,
  type PgClientLike,
  type PgPoolLike,
  type PgResult,
  type PgTransaction,
  type PrismaClientLike,
  type PrismaTransaction,
  type ReapCallback,
  type RefusalReason,
  type ReleaseOutcome,
  type SlotMode,
  type Scope,
  type ServiceDatabase,
  type ServiceTransaction,
  type StaleReap,
} from '@leasehold/keys-core/core';

export interface LeaseholdCoreOptions<Tx> {
  /** The service's own client: `prismaDatabase(prisma)` or `pgDatabase(pool)`. */
  readonly database: ServiceDatabase<Tx>;
  /** The schema of Leasehold's tables; by default `leasehold`. */
  readonly schema?: string | undefined;
  /** Called with failures that no caller sees, such as a hint to controllers that could not be sent. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

export interface CoordinatorOptions {
  /** The holder that others see. No other process may use this name. */
  readonly holder: string;
  /** The owner: only this principal renews and releases the leases. By default the holder. */
  readonly principal?: string | undefined;
  /** The actor in the history. By default the holder. */
  readonly actor?: string | undefined;
}

/** Leases on the service's own connections. `Tx` is a transaction as the service knows it. */
export interface LeaseholdCore<Tx> {
  /** The clock of the deadlines: monotonic, in milliseconds. */
  readonly clock: Clock;
  /**
   * Runs `work` in a transaction that commits only if the grant, or each of a list, is in force at its beginning and has
   * not ended at its commit. The grant may be one of this coordinator, of `@leasehold/client` or of any other
   * holder, by its id and token. Effects of `work` elsewhere are not fenced. `work` is not repeated.
   *
   * @throws {LeaseError} `lease.not_held` if the grant is not in force, or has ended in the meantime;
   * `request.deadline` if the work took longer than its bound, which is the remaining time of the lease,
   * 10 s at most; `lease.in_hook`; `config.invalid` if Leasehold's tables are not in the database;
   * `request.outcome_unknown` if the connection broke in the commit. Except for the last, nothing was changed. Errors of `work` are passed on unchanged.
   */
  fencedTransaction<Result>(
    grant: GrantRef | readonly GrantRef[],
    work: (tx: Tx) => Promise<Result>,
    options?: FencedOptions,
  ): Promise<Result>;
  /** A coordinator of this process: its hooks write the service's tables in the lease's transaction. */
  coordinator(options: CoordinatorOptions): LeaseCoordinator<Tx>;
  /** Leases an environment, at once or after a wait in its line. `await using` releases it. */
  tryAcquireEnvironment(
    environment: Environment,
    request: EnvironmentRequest,
  ): Promise<EnvironmentAcquire>;
  /** Checks that an action may run in an environment and records it, in one transaction. */
  withEnvironmentLease<Recorded>(
    environment: Environment,
    use: EnvironmentUse<Recorded, Tx>,
  ): Promise<EnvironmentUseOutcome<Recorded>>;
}

/**
 * Leases on the connections of a service. Opens nothing by itself, and has nothing to close.
 * @throws {LeaseError} `config.invalid` if the name of the schema is not valid.
 */
export function createLeaseholdCore<Tx>(options: LeaseholdCoreOptions<Tx>): LeaseholdCore<Tx> {
  const { database, schema = DEFAULT_SCHEMA, onError = (): void => undefined } = options;
  const problem = schemaProblem(schema);
  if (problem !== undefined) throw new LeaseError('config.invalid', `schema ${problem}`);
  const clock = createBootClock();
  const store = createServiceStore({ database, schema, clock, ids: systemIds(), onError });
  const leases = createLeaseStore(store);
  return {
    clock,
    fencedTransaction: (grant, work, fenced) => fencedTransaction(store, grant, work, fenced),
    coordinator: ({ holder, principal = holder, actor }) =>
      createLeaseCoordinator({ store, leases, holder, principal, actor }),
    tryAcquireEnvironment: (environment, request) =>
      tryAcquireEnvironment({ store, leases, principal: request.holder }, environment, request),
    withEnvironmentLease: (environment, use) =>
      withEnvironmentLease({ store, leases, principal: use.holder }, environment, use),
  };
}
