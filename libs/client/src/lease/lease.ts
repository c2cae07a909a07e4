import type { ReleaseOutcome } from '@leasehold/keys-core';

/**
 * The outcome of a release: the controller's answer, or `unknown` if none came in time. In every case
 * the lease is over for its holder. Only `released` means that this call ended it.
 */
export type ReleaseReport = ReleaseOutcome | 'unknown';

/**
 * A lease that this process holds. The client renews it until it is released or lost. `await using`
 * releases it at the end of the block.
 */
export interface Lease extends AsyncDisposable {
  readonly leaseId: string;
  /** Grows with every grant of the same scope. A decimal string. Send it with every guarded write. */
  readonly fencingToken: string;
  readonly namespace: readonly string[];
  readonly key: string;
  /**
   * The datacenter that the acquire named; undefined means the controller's. The same scope in two
   * datacenters is two leases, with unrelated fencing tokens.
   */
  readonly datacenter: string | undefined;
  /**
   * Aborts when the lease is lost, with a `LeaseLost` as its reason, no later than the holder's own
   * deadline: before anybody else can be granted the lease. If the event loop is blocked at the deadline,
   * it aborts at the first turn afterwards. It also aborts if this lease was acquired in the context of
   * another one that is lost. It never aborts after {@link release}.
   */
  readonly signal: AbortSignal;
  /**
   * Aborts when the lease will not be renewed any more, with a `LeaseRevoking` as its reason. The work
   * may continue for {@link remainingMs}, and should end. Over a WebSocket this arrives at once. Over
   * HTTP, and for a lease in another datacenter than the controller's, it arrives with the next renewal,
   * at most a third of the TTL later. The same holds for the {@link signal} after a revoke by force.
   */
  readonly revoking: AbortSignal;
  /** Whether the holder may act on it now; {@link assertHeld} throws if not. */
  readonly isHeld: boolean;
  /**
   * Call it right before a guarded act. It reads the clock itself, so it is correct even if the process
   * was stopped and the signal has not aborted yet.
   * @throws {LeaseLost} if it is lost or released; `LeaseUnconfirmedError` if the process was stopped for
   * more than a second and the controller has not yet confirmed the lease.
   */
  assertHeld(): void;
  /**
   * As {@link assertHeld}, but waits for the controller's answer if the lease is unconfirmed.
   * @throws {LeaseLost}
   */
  confirm(): Promise<void>;
  /**
   * The time until the holder's own deadline, without a renewal; 0 if the lease is over. Milliseconds.
   * The signal aborts up to 100 ms earlier.
   */
  remainingMs(): number;
  /**
   * Runs `fn` with the lease in its context: calls and leases within are cancelled when it is lost.
   * Does not release the lease.
   */
  run<T>(fn: () => T): T;
  /**
   * Releases the lease; `result` and `detail` are kept in its history. Safe to repeat: only the first
   * call counts. Resolves within 5 s. If the controller cannot be reached by then, the client tries
   * until the grant has expired. Never throws, for any argument: a detail is cut to what may be kept,
   * and any result but `ok` counts as `failed`.
   */
  release(result?: 'ok' | 'failed', detail?: string): Promise<ReleaseReport>;
}
