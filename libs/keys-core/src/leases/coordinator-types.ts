import {
  type GrantRef,
  type RefusalReason,
  type ReleaseOutcome,
  type SlotMode,
} from '../kernel/lease.ts';
import type { HeldAllAnswer } from './acquiring-all.ts';
import type { HeldAnswer, LeaseDeadlines } from './lease-types.ts';

/** A lease that a use case holds. Deadlines are readings of this process's clock. */
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

export type CoordinatorAcquireAll =
  | {
      readonly outcome: 'granted';
      /** In the order of the use cases. */
      readonly leases: readonly CoordinatedLease[];
      /** How long it waited in line, in milliseconds. */
      readonly waitedMs: number;
    }
  | HeldAllAnswer;

export type CoordinatorHeartbeat =
  | (CoordinatedLease & { readonly outcome: 'renewed' })
  | { readonly outcome: 'refused'; readonly leaseId: string; readonly reason: RefusalReason };

export type CoordinatorAcquireOrRenew =
  (CoordinatedLease & { readonly outcome: 'granted' | 'renewed' }) | HeldAnswer;

/**
 * Leases for services that share the database: the writes of a use case are in the
 * transaction of each transition. Every method throws `lease.in_hook` if a hook calls it,
 * `grant.contended` if its transaction conflicted with others at every try, `request.deadline` if its
 * hook took too long, `request.outcome_unknown` if the connection broke in a commit, and errors of hooks
 * unchanged. Except for an unknown outcome nothing was changed then.
 */
export interface LeaseCoordinator<Tx> {
  /**
   * Acquires the lease, and waits in line for up to `waitMs` if somebody else holds it; 0 answers at once.
   * If the answer was lost, a call with the same `key()` finds its grant.
   * @throws {LeaseError} `request.invalid`, `lease.ttl_out_of_range`, `grant.hold_off`, and
   * `lease.wait_cancelled` if `signal` aborted: then it holds nothing.
   */
  acquire<Success>(
    lease: LeaseUseCase<Success, Tx>,
    waitMs: number,
    options?: { readonly signal?: AbortSignal | undefined },
  ): Promise<CoordinatorAcquire>;
  /**
   * Acquires up to 64 leases together: all of them, or none. Their `willInsert` hooks run in one transaction, in the
   * order of the list. It waits in the line of each, as {@link acquire} does. Each lease is renewed and released by
   * itself afterwards. A refusal names the lease that stands in the way.
   * @throws {LeaseError} as {@link acquire}; `request.invalid` for an empty list, and for a lease that is in it twice.
   */
  acquireAll(
    leases: readonly AnyUseCase<Tx>[],
    waitMs: number,
    options?: { readonly signal?: AbortSignal | undefined },
  ): Promise<CoordinatorAcquireAll>;
  /**
   * Renews the lease by its duration.
   * @throws {LeaseError} `lease.not_held` if this coordinator has not acquired it.
   */
  heartbeat<Success>(lease: LeaseUseCase<Success, Tx>): Promise<CoordinatorHeartbeat>;
  /**
   * Runs `work` under an acquired lease and renews the lease during the work. If the work resolves, the
   * lease ends with `releaseOk`, and the result is returned. If it throws, the lease ends with
   * `releaseFail`, and the error is thrown, whatever the outcome of the release.
   *
   * `signal` aborts with the `lease.lost` that is also thrown: when a heartbeat is refused, or at the
   * deadline if none was answered. Work that continues is then not waited for. The lease is not released
   * but expires, so that nobody else holds it in the meantime. After a revocation (`details.reason` is
   * `revoked`, also by force) the signal aborts, and the work may still end properly until the deadline.
   *
   * If the release of a success throws, the caller gets its error and still holds the lease: `releaseOk`
   * may be tried again. A `willHeartbeat` that throws is tried again after 250 ms; its error is the
   * `cause` of a loss.
   * @throws {LeaseError} `lease.lost`; `lease.not_held` if this coordinator has not acquired it, or has
   * released it.
   */
  whileHeld<Success>(
    lease: LeaseUseCase<Success, Tx>,
    work: (signal: AbortSignal) => Promise<Success>,
  ): Promise<Success>;
  /**
   * Releases the lease with a success. Its hook runs only if the answer is `released`: if the lease was
   * lost before, the answer reports that, and the use case writes nothing.
   * @throws {LeaseError} `lease.not_held` if this coordinator has not acquired it.
   */
  releaseOk<Success>(lease: LeaseUseCase<Success, Tx>, success: Success): Promise<ReleaseOutcome>;
  /**
   * Releases the lease with a failure, whose message is kept in its history. Otherwise as `releaseOk`.
   * @throws {LeaseError} `lease.not_held` if this coordinator has not acquired it.
   */
  releaseFail<Success>(lease: LeaseUseCase<Success, Tx>, failure: unknown): Promise<ReleaseOutcome>;
  /**
   * In one statement: renews the lease if this holder has it, with the same token; otherwise grants it if
   * it is free or expired and nobody waits for it; otherwise returns the holder. For leaders and for
   * liveness. Holders are identified by name, so a restarted process finds its lease again, and names
   * must be unique.
   */
  acquireOrRenew<Success>(lease: LeaseUseCase<Success, Tx>): Promise<CoordinatorAcquireOrRenew>;
  /**
   * Ends the expired leases of these namespaces, and calls `fn` for each lease that expired there,
   * whichever process ended it. Each callback has its own transaction and commits exactly once. One that
   * throws is rolled back, recorded, and called again after a second or more; the others continue. A call
   * runs at most a thousand callbacks. Callbacks that nobody claims within 24 h are dropped.
   * @throws {LeaseError} `request.invalid`.
   */
  reapStaleLeases(
    namespaces: readonly (readonly string[])[],
    includeChildren: boolean,
    fn: ReapCallback<Tx>,
  ): Promise<StaleReap>;
}

/** The id of one grant: a new UUID for each lease that is acquired. */
export type LeaseId = string;

/** What is leased: a key in a namespace. Segments are not empty and do not contain `.`. */
export interface Scope {
  readonly namespace: readonly string[];
  readonly key: string;
}

/**
 * One lease of a use case, with hooks that write the use case's own rows in each transition. `Tx` is the
 * service's transaction type.
 *
 * A hook runs in the transaction of its transition. If that transaction conflicts with another one, it is
 * tried again with its hook, so a hook must do nothing but write with `tx`. If a hook throws, the
 * transition is rolled back, and the caller gets the error. A hook must end before the lease expires, and
 * within 10 s. A hook that calls the coordinator gets `lease.in_hook`.
 *
 * `at` is a reading of this process's clock: from then on the holder must not act any more. It is a grace
 * before the database may grant the lease to somebody else. `grant` has the id and the token of the grant,
 * for use cases that store them.
 */
export interface LeaseUseCase<Success = void, Tx = unknown> {
  /** The grant's id: a UUID that no other lease has had. */
  key(): LeaseId;
  scope(): Scope;
  /**
   * `shared` beside others that share it, `permit` as one of a declared number; by default alone.
   * `acquireOrRenew` is for a lease that is held alone.
   */
  mode?(): SlotMode | undefined;
  /** For how long a grant or a renewal lasts, in milliseconds: 1 s to 24 h. */
  durationMs(): number;
  /** A text for callers that are refused: at most 1024 bytes, without control characters. */
  comment?(): string | undefined;
  /** Any JSON, of at most 16 KiB and 16 levels, for people who look at the lease. Kept with the grant. */
  metadata?(): unknown;
  /** Called with the new deadline after each committed grant and renewal. What it throws is not caught. */
  setDeadline?(at: number): void;
  willInsert?(tx: Tx, at: number, grant: GrantRef): unknown;
  willHeartbeat?(tx: Tx, at: number, grant: GrantRef): unknown;
  willReleaseOk?(tx: Tx, success: Success, grant: GrantRef): unknown;
  willReleaseFail?(tx: Tx, failure: unknown, grant: GrantRef): unknown;
}

/** What a method that releases no success needs of a use case. */
export type AnyUseCase<Tx> = Omit<LeaseUseCase<never, Tx>, 'willReleaseOk'>;

/**
 * Called for each lease that expired, with the transaction that ends it. It may be called again for
 * one lease when it failed or conflicted with another transaction, and commits once. `grant` has the
 * token of the expired grant; the scope may have another holder by now.
 */
export type ReapCallback<Tx> = (leaseId: LeaseId, scope: Scope, tx: Tx, grant: GrantRef) => unknown;

export interface StaleReap {
  /** Expired grants that this call ended. */
  readonly endedCount: number;
  /** Callbacks that committed. */
  readonly calledCount: number;
  /** Callbacks that failed: each is tried again later, alone. */
  readonly failedCount: number;
}
