import type { GrantRef } from '../../kernel/lease/outcomes.ts';

/** The id of one holding: a new UUID for each lease that is obtained. */
export type LeaseId = string;

/** What is held: a key in a namespace, whose segments are neither empty nor contain `.`. */
export interface Scope {
  readonly namespace: readonly string[];
  readonly key: string;
}

/**
 * One lease as its use case sees it, and what the use case writes of its own with each transition.
 * `Tx` is the transaction as the service knows it.
 *
 * A hook runs inside the transaction of its transition, which is tried again when it lost against
 * another one, and the hook with it; so it does nothing but write with `tx`. One that throws rolls the
 * transition back, and its error is the caller's. A hook must be done before the lease expires, and
 * within 10 s. From within a hook the coordinator answers `lease.in_hook`.
 *
 * `at` is the moment, in the clock of this process, from which the holder must not act any more: a
 * grace before the database may give the lease to another. `grant` names the grant, for use cases
 * that store its id or its token.
 */
export interface LeaseUseCase<Success = void, Tx = unknown> {
  /** A UUID that no other lease has had; the grant's id. */
  key(): LeaseId;
  scope(): Scope;
  /** For how long a grant or a renewal lasts, in milliseconds: 1 s to 24 h. */
  durationMs(): number;
  /** What callers that are refused are told: at most 1024 bytes, without control characters. */
  comment?(): string | undefined;
  /** Any JSON, of at most 16 KiB and 16 levels, for people who look at the lease. Kept with the grant. */
  metadata?(): unknown;
  /** Told after each grant and each renewal, once it is committed. */
  setDeadline?(at: number): void;
  willInsert?(tx: Tx, at: number, grant: GrantRef): unknown;
  willHeartbeat?(tx: Tx, at: number, grant: GrantRef): unknown;
  willReleaseOk?(tx: Tx, success: Success, grant: GrantRef): unknown;
  willReleaseFail?(tx: Tx, failure: unknown, grant: GrantRef): unknown;
}

/** What all methods but the hooks of a release take of a use case. */
export type AnyUseCase<Tx> = Omit<LeaseUseCase<never, Tx>, 'willReleaseOk'>;
