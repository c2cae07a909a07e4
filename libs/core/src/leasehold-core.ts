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

export interface LeaseholdCoreOptions<Tx> {
  /** The service's own client: `prismaDatabase(prisma)` or `pgDatabase(pool)`. */
  readonly database: ServiceDatabase<Tx>;
  /** The schema that Leasehold's tables are in; `leasehold` unless another one was named for it. */
  readonly schema?: string | undefined;
  /** Told of trouble that no caller sees, such as a hint to controllers that could not be sent. */
  readonly onError?: ((error: unknown) => void) | undefined;
}

export interface CoordinatorOptions {
  /** Who holds what this coordinator acquires, as others are told; unlike that of any other process. */
  readonly holder: string;
  /** Who owns it: only this principal renews and releases it. The holder unless said. */
  readonly principal?: string | undefined;
  /** Who is written into the history. The holder unless said. */
  readonly actor?: string | undefined;
}

/** Leases on the service's own connections. `Tx` is a transaction as the service knows it. */
export interface LeaseholdCore<Tx> {
  /** The clock that deadlines are in: monotonic, in milliseconds. */
  readonly clock: Clock;
  /**
   * Runs `work` in a transaction that commits only if the grant was in force when it began and has not
   * been ended when it commits. For a lease of this coordinator, and for one of `@leasehold/client` or
   * any other holder, by its id and token. What `work` does elsewhere is not fenced. It is not repeated.
   *
   * @throws {LeaseError} `lease.not_held` when the grant is not in force, or was ended meanwhile;
   * `request.deadline` when the work took longer than its bound, which is the remaining time of the
   * lease, and 10 s at most; `lease.in_hook`; `request.outcome_unknown` when the connection broke in the
   * commit. Except for the last, nothing was changed. What `work` throws comes out as it is.
   */
  fencedTransaction<Result>(
    grant: GrantRef,
    work: (tx: Tx) => Promise<Result>,
    options?: FencedOptions,
  ): Promise<Result>;
  /** A coordinator of this process: its hooks write the service's tables in the lease's transaction. */
  coordinator(options: CoordinatorOptions): LeaseCoordinator<Tx>;
  /** Leases an environment if nobody has it; never waits. `await using` gives it back. */
  tryAcquireEnvironment(
    environment: Environment,
    request: EnvironmentRequest,
  ): Promise<EnvironmentAcquire>;
  /** Checks that an action may run in an environment and records that it does, in one transaction. */
  withEnvironmentLease<Recorded>(
    environment: Environment,
    use: EnvironmentUse<Recorded, Tx>,
  ): Promise<EnvironmentUseOutcome<Recorded>>;
}

/**
 * Leases on the connections of a service. Opens nothing by itself, and has nothing to close.
 * @throws {LeaseError} `config.invalid` when there can be no schema of this name.
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
