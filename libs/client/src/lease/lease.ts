import {
  isHolderKnown,
  printableText,
  type ReleaseOutcome,
  resourceText,
} from '@leasehold/keys-core';
import type { HeldAnswer } from '@leasehold/keys-core/leases';
import { LeaseholdCallError } from '../transport/errors.ts';

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
   * at most a third of the TTL later. The same holds for the {@link signal} after a revoke by force. A lease that
   * is not renewed, such as that of an environment by default, learns of it over a WebSocket alone, and not if that was
   * down for more than a minute: then its fencing token is what stops its writes.
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
   * Replaces the metadata of the lease: any JSON up to 16 KiB, which everybody sees with it, and `observe` reports.
   * It does not renew the lease. Updates of one lease are carried out one after the other.
   * @throws {LeaseLost} if it is lost or released; `LeaseholdCallError`; `OutcomeUnknownError` if no answer
   * came: the update may still arrive, also after a later one.
   */
  update(change: { readonly metadata: unknown }): Promise<void>;
  /**
   * Shares a lease that is held alone, without letting it go: others that want to share it are granted it beside
   * this one. It stays the same lease, with its fencing token. There is no way back but to release it and to
   * acquire it alone.
   * @throws as {@link update}; `LeaseholdCallError` with `request.invalid` for one of several permits.
   */
  downgrade(): Promise<void>;
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

// The errors of acquiring and holding a lease.

/** The name of a lease or an environment; `face` is its kind. */
export interface LeaseScope {
  readonly face: 'lease' | 'environment';
  readonly namespace: readonly string[];
  readonly key: string;
}

/** A scope for people: `user.update/42`. */
export function scopeText({ namespace, key }: LeaseScope): string {
  return resourceText({ namespace: namespace.join('.'), name: key });
}

/** Who holds the requested lease, since when, and how many wait for it. */
export type HeldBy = Omit<HeldAnswer, 'outcome' | 'isExpiryUnconfirmed'>;

abstract class HeldError extends LeaseholdCallError {
  readonly scope: LeaseScope;
  readonly heldBy: HeldBy;

  protected constructor(
    code: 'lease.held' | 'lease.wait_timeout',
    message: string,
    { scope, heldBy }: { readonly scope: LeaseScope; readonly heldBy: HeldBy },
  ) {
    super(code, { message, details: { ...heldBy } });
    this.scope = scope;
    this.heldBy = heldBy;
  }

  get by(): string {
    return this.heldBy.by;
  }

  get since(): string {
    return this.heldBy.since;
  }

  get remainingMs(): number {
    return this.heldBy.remainingMs;
  }

  get comment(): string | null {
    return this.heldBy.comment;
  }

  get waiters(): number {
    return this.heldBy.waiters;
  }
}

/** Not acquired: somebody else holds it, and the caller did not want to wait. */
export class LeaseHeldError extends HeldError {
  override readonly name = 'LeaseHeldError';

  constructor(scope: LeaseScope, heldBy: HeldBy) {
    super('lease.held', `${scopeText(scope)} ${obstacleText(heldBy)}.`, { scope, heldBy });
  }
}

/** Not acquired: it did not become free within `waitMs`. */
export class LeaseWaitTimeoutError extends HeldError {
  override readonly name = 'LeaseWaitTimeoutError';

  constructor(scope: LeaseScope, heldBy: HeldBy) {
    const message = `${scopeText(scope)} was not free in time; it ${obstacleText(heldBy)}.`;
    super('lease.wait_timeout', message, { scope, heldBy });
  }
}

function obstacleText(heldBy: HeldBy): string {
  const { by, remainingMs } = heldBy;
  if (!isHolderKnown(heldBy)) return 'may be held: who has it is not known now';
  // When its time is over nobody holds it: the caller that is named is first in line.
  return remainingMs > 0 ? `is held by ${by}` : `is about to be granted to ${by}`;
}

/** This work, or work that it runs within, holds the lease that it would wait for. */
export class LeaseSelfDeadlockError extends LeaseholdCallError {
  override readonly name = 'LeaseSelfDeadlockError';
  readonly scope: LeaseScope;

  constructor(scope: LeaseScope) {
    super('lease.self_deadlock', {
      message: `This work holds ${scopeText(scope)} already: waiting for it would never end.`,
    });
    this.scope = scope;
  }
}

/**
 * How a lease was lost. `unreachable`: no controller answered in time; `expired`: it was not renewed in
 * time, for example because the process was stopped; `superseded`: another holder has it; `revoked`: an
 * operator revoked it; `released`: it was released, by this process or with its token.
 */
export type LeaseLossReason = 'expired' | 'superseded' | 'revoked' | 'released' | 'unreachable';

/** The grant that was lost; undefined in a service that its holder called. */
export interface LostGrant {
  readonly scope: LeaseScope;
  readonly leaseId: string;
  readonly fencingToken: string;
}

interface LeaseLostOptions {
  readonly grant?: LostGrant | undefined;
  readonly cause?: unknown;
  readonly result?: unknown;
  /** What an operator said. */
  readonly note?: string | null;
}

/** The work must stop: its lease is lost. The reason of a lease's signal; its checks throw it too. */
export class LeaseLost extends LeaseholdCallError {
  override readonly name: string = 'LeaseLost';
  readonly reason: LeaseLossReason;
  readonly grant: LostGrant | undefined;
  /** What the work of `run` returned, if that the lease was lost was found out only afterwards. */
  readonly result: unknown;

  constructor(reason: LeaseLossReason, options: LeaseLostOptions = {}) {
    const { grant } = options;
    const what = grant === undefined ? 'The lease of the caller' : scopeText(grant.scope);
    super('lease.lost', {
      message: `${what} is lost: ${lossText(reason, options.cause, options.note)}`,
      details: { reason, leaseId: grant?.leaseId, fencingToken: grant?.fencingToken },
      cause: options.cause,
    });
    this.reason = reason;
    this.grant = grant;
    this.result = options.result;
  }
}

const LOSS_TEXT: Record<LeaseLossReason, string> = {
  expired: 'it expired',
  superseded: 'somebody else holds it',
  revoked: 'it was revoked',
  released: 'it was released',
  unreachable: 'no controller answered in time',
};

/** A controller may have answered, and refused to renew it: its caller's token was revoked. */
function lossText(reason: LeaseLossReason, cause: unknown, note: string | null = null): string {
  if (note !== null) return `${LOSS_TEXT[reason]} (${printableText(note)}).`;
  if (reason !== 'unreachable' || !(cause instanceof LeaseholdCallError)) {
    return `${LOSS_TEXT[reason]}.`;
  }
  const [why = ''] = cause.message.split('\n', 1);
  return `it could not be renewed in time. ${why}`;
}

/** Lost because an operator revoked it. */
export class LeaseRevoked extends LeaseLost {
  override readonly name = 'LeaseRevoked';
  /** What the operator said. */
  readonly note: string | null;

  constructor(grant: LostGrant, note: string | null, result?: unknown) {
    super('revoked', { grant, result, note });
    this.note = note;
  }
}

/** The lease is still held but will not be renewed: the reason of `lease.revoking`. */
export class LeaseRevoking extends Error {
  override readonly name = 'LeaseRevoking';
  /** What the operator said. */
  readonly note: string | null;

  constructor(scope: LeaseScope, note: string | null) {
    const why = note === null ? '' : ` (${printableText(note)})`;
    super(`${scopeText(scope)} will not be renewed${why}: finish in the time that is left.`);
    this.note = note;
  }
}

/** The process was stopped, and the client asks whether the lease is held. See `lease.confirm()`. */
export class LeaseUnconfirmedError extends LeaseholdCallError {
  override readonly name = 'LeaseUnconfirmedError';

  constructor() {
    super('lease.unconfirmed');
  }
}

/** Who holds it, as a refusal tells it. */
export function heldByOf({
  by,
  since,
  remainingMs,
  waitedMs,
  comment,
  action,
  waiters,
  pool,
}: Omit<HeldAnswer, 'outcome'>): HeldBy {
  return {
    by,
    since,
    remainingMs,
    waitedMs,
    comment,
    action,
    waiters,
    ...(pool === undefined ? {} : { pool }),
  };
}
