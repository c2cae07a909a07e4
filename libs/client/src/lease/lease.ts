import type { ReleaseOutcome } from '@leasehold/keys-core';

/**
 * What became of a release: the controller's word, or `unknown` when none came in time. Whatever it
 * is, the lease is over for its holder; only `released` says that this call ended it.
 */
export type ReleaseReport = ReleaseOutcome | 'unknown';

/**
 * A lease that this process holds. It is renewed by itself until it is released or lost. `await using`
 * releases it at the end of the block.
 */
export interface Lease extends AsyncDisposable {
  readonly leaseId: string;
  /** Grows with every grant of the same scope: a decimal string, to be shown to what it guards. */
  readonly fencingToken: string;
  readonly namespace: readonly string[];
  readonly key: string;
  /**
   * The datacenter that it was asked for in; undefined: that of the controller. The same scope in two
   * datacenters is two leases, and their fencing tokens have nothing to do with each other.
   */
  readonly datacenter: string | undefined;
  /**
   * Aborts when the lease is lost, with a `LeaseLost` as its reason, no later than the holder's own
   * deadline: before anybody else can be granted it. With the event loop blocked past the deadline it
   * aborts at the first turn after that. Also aborts when a lease is lost in whose context this one
   * was acquired. Never aborts after {@link release}.
   */
  readonly signal: AbortSignal;
  /**
   * Aborts when the lease will not be renewed any more, with a `LeaseRevoking` as its reason: the
   * work may go on for {@link remainingMs}, and should come to an end. Received at once over a WebSocket;
   * over HTTP, and of a lease in another datacenter than the controller's, with the next renewal: a
   * third of the TTL later at most. The same holds for the {@link signal} when it is revoked by force.
   */
  readonly revoking: AbortSignal;
  /** Whether it may be acted on at this moment; what {@link assertHeld} asserts. */
  readonly isHeld: boolean;
  /**
   * To be called right before a guarded act. Reads the clock itself, so it is right also when the
   * process stood still and the signal has not had its turn yet.
   * @throws {LeaseLost} when it is lost or released; `LeaseUnconfirmedError` when the process stood
   * still for more than a second and the controller has not yet confirmed the lease again.
   */
  assertHeld(): void;
  /**
   * As {@link assertHeld}, but waits for the controller's word where one is on its way.
   * @throws {LeaseLost}
   */
  confirm(): Promise<void>;
  /**
   * How long until the holder's own deadline, unless it is renewed; 0 when it is over. Milliseconds.
   * The signal aborts up to 100 ms before that.
   */
  remainingMs(): number;
  /**
   * Runs `fn` with the lease in its context: calls and leases within are cancelled when it is lost.
   * Releases nothing.
   */
  run<T>(fn: () => T): T;
  /**
   * Gives it back, with how the work went for its history. Safe to repeat: the first call counts.
   * Answers within five seconds; where the controller cannot be reached by then it is tried on until
   * the grant has run out. Never throws.
   */
  release(result?: 'ok' | 'failed', detail?: string): Promise<ReleaseReport>;
}
