import type { GrantRef, RefusalReason, ReleaseOutcome } from '../../kernel/lease/outcomes.ts';
import type { HeldAnswer, LeaseDeadlines } from '../lease-types.ts';
import type { ReapCallback, StaleReap } from './reap-stale.ts';
import type { LeaseUseCase } from './use-case.ts';

/** A lease that a use case has now. Deadlines are in the clock of this process. */
export interface CoordinatedLease extends GrantRef {
  readonly deadlines: LeaseDeadlines;
}

export type CoordinatorAcquire =
  | (CoordinatedLease & {
      readonly outcome: 'granted';
      /** How long it waited in line, in milliseconds. */
      readonly waitedMs: number;
    })
  | HeldAnswer;

export type CoordinatorHeartbeat =
  | (CoordinatedLease & { readonly outcome: 'renewed' })
  | { readonly outcome: 'refused'; readonly leaseId: string; readonly reason: RefusalReason };

export type CoordinatorAcquireOrRenew =
  (CoordinatedLease & { readonly outcome: 'granted' | 'renewed' }) | HeldAnswer;

/**
 * Leases for services that share the database (design 6.2): what a use case writes of its own is in
 * the transaction of each transition. Every method throws `lease.in_hook` from within a hook,
 * `grant.contended` when a transaction lost against others at every try, `request.deadline` when its
 * hook took too long, `request.outcome_unknown` when the connection broke in a commit, and what a
 * hook throws, as it is; except for an unknown outcome nothing was changed then.
 */
export interface LeaseCoordinator<Tx> {
  /**
   * Grants the lease, in line for `waitMs` if another has it; 0 answers at once. Asked again after a
   * lost answer, with the same `key()`, it finds the grant that it was given.
   * @throws {LeaseError} `request.invalid`, `lease.ttl_out_of_range`, `grant.hold_off`, and
   * `lease.wait_cancelled` when `signal` aborted: then it holds nothing.
   */
  acquire<Success>(
    lease: LeaseUseCase<Success, Tx>,
    waitMs: number,
    options?: { readonly signal?: AbortSignal | undefined },
  ): Promise<CoordinatorAcquire>;
  /**
   * Renews the lease by its duration.
   * @throws {LeaseError} `lease.not_held` when this coordinator has not acquired it.
   */
  heartbeat<Success>(lease: LeaseUseCase<Success, Tx>): Promise<CoordinatorHeartbeat>;
  /**
   * Does `work` with a lease that was acquired, renews it meanwhile, and ends it as the work ends:
   * with `releaseOk` of what it resolves to, which is then the answer, or with `releaseFail` of what it
   * throws, which is then thrown, whatever becomes of the release.
   *
   * `signal` aborts with the `lease.lost` that is thrown when a heartbeat is refused, or at the deadline
   * when none was answered. Work that goes on then is not waited for, and the lease is left to run out,
   * so that nobody has it meanwhile. Revoked in good time (`details.reason` is `revoked`, and so it is
   * when it was forced), the work is told, and may end properly until the deadline.
   *
   * When the release of a success throws, its error is the caller's and the lease is still held:
   * `releaseOk` may be tried again. A `willHeartbeat` that throws is tried again after 250 ms; what it
   * threw is the `cause` of a loss.
   * @throws {LeaseError} `lease.lost`; `lease.not_held` when this coordinator has not acquired it, or
   * has released it.
   */
  whileHeld<Success>(
    lease: LeaseUseCase<Success, Tx>,
    work: (signal: AbortSignal) => Promise<Success>,
  ): Promise<Success>;
  /**
   * Gives the lease up with a success. Its hook runs only when the answer is `released`: a lease that
   * was lost meanwhile is reported, and nothing of the use case is written.
   * @throws {LeaseError} `lease.not_held` when this coordinator has not acquired it.
   */
  releaseOk<Success>(lease: LeaseUseCase<Success, Tx>, success: Success): Promise<ReleaseOutcome>;
  /**
   * Gives the lease up with a failure, whose message is kept in its history. Otherwise as `releaseOk`.
   * @throws {LeaseError} `lease.not_held` when this coordinator has not acquired it.
   */
  releaseFail<Success>(lease: LeaseUseCase<Success, Tx>, failure: unknown): Promise<ReleaseOutcome>;
  /**
   * In one statement: renews the lease that this holder has, its token unchanged; else grants it if
   * it is free or expired and nobody waits for it; else says who has it. For leaders and for liveness.
   * It goes by the holder's name, so that a restarted process finds its lease again: names differ.
   */
  acquireOrRenew<Success>(lease: LeaseUseCase<Success, Tx>): Promise<CoordinatorAcquireOrRenew>;
  /**
   * Ends the expired leases of these namespaces, and calls `fn` for each that expired there, however it
   * ended it, in a transaction of its own: it commits exactly once for each. One that throws is rolled
   * back, noted, and called again after a second or more; the others go on. Bounded: a thousand
   * callbacks a call. Callbacks that nobody claimed within 24 h are dropped.
   * @throws {LeaseError} `request.invalid`.
   */
  reapStaleLeases(
    namespaces: readonly (readonly string[])[],
    includeChildren: boolean,
    fn: ReapCallback<Tx>,
  ): Promise<StaleReap>;
}
