/** The errors of acquiring and holding a lease. */
import { resourceText } from '@leasehold/keys-core';
import type { HeldAnswer } from '@leasehold/keys-core/leases';
import { LeaseholdCallError } from '../transport/call-errors.ts';

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
    super('lease.held', `${scopeText(scope)} is held by ${heldBy.by}.`, { scope, heldBy });
  }
}

/** Not acquired: it did not become free within `waitMs`. */
export class LeaseWaitTimeoutError extends HeldError {
  override readonly name = 'LeaseWaitTimeoutError';

  constructor(scope: LeaseScope, heldBy: HeldBy) {
    const message = `${scopeText(scope)} was not free in time; it is held by ${heldBy.by}.`;
    super('lease.wait_timeout', message, { scope, heldBy });
  }
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
      message: `${what} is lost: ${LOSS_TEXT[reason]}.`,
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

/** Lost because an operator revoked it. */
export class LeaseRevoked extends LeaseLost {
  override readonly name = 'LeaseRevoked';
  /** What the operator said. */
  readonly note: string | null;

  constructor(grant: LostGrant, note: string | null, result?: unknown) {
    super('revoked', { grant, result });
    this.note = note;
  }
}

/** The lease is still held but will not be renewed: the reason of `lease.revoking`. */
export class LeaseRevoking extends Error {
  override readonly name = 'LeaseRevoking';
  /** What the operator said. */
  readonly note: string | null;

  constructor(scope: LeaseScope, note: string | null) {
    super(`${scopeText(scope)} will not be renewed: finish in the time that is left.`);
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
