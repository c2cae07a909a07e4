import type { GrantRef } from '../../kernel/lease/outcomes.ts';

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
  /** For how long a grant or a renewal lasts, in milliseconds: 1 s to 24 h. */
  durationMs(): number;
  /** A text for callers that are refused: at most 1024 bytes, without control characters. */
  comment?(): string | undefined;
  /** Any JSON, of at most 16 KiB and 16 levels, for people who look at the lease. Kept with the grant. */
  metadata?(): unknown;
  /** Called with the new deadline after each committed grant and renewal. */
  setDeadline?(at: number): void;
  willInsert?(tx: Tx, at: number, grant: GrantRef): unknown;
  willHeartbeat?(tx: Tx, at: number, grant: GrantRef): unknown;
  willReleaseOk?(tx: Tx, success: Success, grant: GrantRef): unknown;
  willReleaseFail?(tx: Tx, failure: unknown, grant: GrantRef): unknown;
}

/** What a method that releases no success needs of a use case. */
export type AnyUseCase<Tx> = Omit<LeaseUseCase<never, Tx>, 'willReleaseOk'>;
