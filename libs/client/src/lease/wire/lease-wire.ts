/**
 * The calls behind leases, with one interface for both faces. Local times are read here, just
 * before a call is sent, so that an answer's deadlines are never later than those of the grant.
 */
import type { GrantRef, ReleaseOutcome } from '@leasehold/keys-core';
import type { AcquireAnswer, LeaseRenewResult, ReleaseInput } from '@leasehold/keys-core/leases';
import type { Ending } from '../../signals.ts';
import type { UnreachableError } from '../../transport/call-errors.ts';

/** One attempt to get a grant. Sent again unchanged, it is the same attempt. */
export interface AcquireRequest {
  readonly namespace: readonly string[];
  readonly key: string;
  /** Undefined for an environment: the controller's own duration. */
  readonly ttlMs: number | undefined;
  readonly holder: string;
  readonly action?: string | undefined;
  readonly comment?: string | undefined;
  readonly metadata?: unknown;
  /** Where the lease is to be; by default the controller's own datacenter. */
  readonly datacenter?: string | undefined;
  readonly idempotencyKey: string;
  /** Whether the grant is renewed before it is handed out: until then it is a short one. */
  readonly confirms?: boolean | undefined;
}

export interface ReleaseRequest extends ReleaseInput {
  /** Where the lease is. */
  readonly datacenter?: string | undefined;
}

/** Every method throws errors of this library, or the reason of the ending that was passed in. */
export interface LeaseWire {
  /** Asks for a grant, waiting in line for up to `waitMs`. */
  acquire(request: AcquireRequest, waitMs: number, ending: Ending): Promise<AcquireAnswer>;
  /** Makes sure that the attempt holds nothing, whatever its outcome was. */
  giveUp(request: AcquireRequest, ending: Ending): Promise<void>;
  /**
   * One call for leases of one datacenter, by default the controller's own. The answer may lack
   * some of the leases.
   */
  heartbeat(
    renewals: readonly GrantRef[],
    ending: Ending,
    datacenter?: string,
  ): Promise<LeaseRenewResult[]>;
  release(request: ReleaseRequest, ending: Ending): Promise<ReleaseOutcome>;
  /** Why nothing sent since that moment can have arrived; undefined if it can. */
  unreachableSince(momentMs: number): UnreachableError | undefined;
}
