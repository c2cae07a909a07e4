/**
 * The rules of a lease, written a second time and without a database: the oracle of the model-based
 * test, the database of the simulator, and the leases of the test double of `@leasehold/client`. No locks,
 * no statements, and no clock but the one that its user moves, so that it is short enough to be believed
 * by reading it. What the kernel answers, stores and records must match this model.
 *
 * There are two clocks: `nowMs` is the database's, which may step back; `elapsedMs` is the time
 * that has really gone by, which is also the holders' own clock.
 */
import type { EventKind } from './face-types.ts';
import { type Ladder, UNCONFIRMED_LADDER } from './ladder.ts';
import type {
  EndReason,
  GrantRef,
  Phase,
  RefusalReason,
  ReleaseOutcome,
  RevokeOutcome,
  UpdateOutcome,
} from './lease.ts';
import { type Face, type Resource, resourceKey } from './resource.ts';

/** One grant, from its acquisition on; kept after its end. */
export interface ModelGrant {
  readonly resource: Resource;
  readonly leaseId: string;
  readonly holder: string;
  readonly principal: string;
  readonly ladder: Ladder;
  /** What the holder was given. */
  readonly givenToken: bigint;
  /** What the row carries: greater than what the holder was given once it was ended by force. */
  token: bigint;
  expiresAt: number;
  /** Whether its holder must confirm it and has not done so yet. */
  isUnconfirmed: boolean;
  renewable: boolean;
  metadata: unknown;
  end: EndReason | null;
  stopsBy: number | null;
  /** The later of its expiry and its release, for the deletion of rows. */
  overAt: number;
  /** Until when, by its own clock, the holder may believe that it holds the grant; set by the test. */
  believedUntilMs: number;
  /** Whether an operator has freed the key although its backend may still run. */
  isAbandoned: boolean;
}

export interface ModelAsk {
  readonly resource: Resource;
  readonly leaseId: string;
  readonly holder: string;
  readonly principal: string;
  readonly ladder: Ladder;
  readonly confirms: boolean;
  readonly metadata?: unknown;
}

/** A holder's reference to a grant, with or without a wrong part. */
export interface ModelRef extends GrantRef {
  readonly face: Face;
  readonly principal: string;
}

/** Rows are deleted this long after their end, if their token is this far behind the clock. */
const FREE_ROW_KEPT_MS = 24 * 3_600_000;
const FREE_ENVIRONMENT_KEPT_MS = 8 * FREE_ROW_KEPT_MS;
const TOKEN_MARGIN_MS = 3_600_000;

export class LeaseModel {
  nowMs: number;
  elapsedMs = 0;
  /** The newest grant of each resource whose row is still there. */
  readonly rows = new Map<string, ModelGrant>();
  readonly grants: ModelGrant[] = [];
  /** The events that must have been written, per resource, as `kind lease token`. */
  readonly events = new Map<string, string[]>();
  /** The lease-face grants that were confirmed and expired: a callback is owed for each. */
  readonly owedCallbacks = new Set<string>();
  /** The largest token of a row that was deleted: the next tokens exceed it, whatever the clock says. */
  tokenFloor = 0n;

  constructor(nowMs: number) {
    this.nowMs = nowMs;
  }

  isUnexpired(grant: ModelGrant): boolean {
    return grant.end === null && this.nowMs < grant.expiresAt;
  }

  /** At the very instant of its expiry a grant is expired, and may be given away. */
  isTakable(grant: ModelGrant): boolean {
    return !this.isUnexpired(grant) && (grant.stopsBy === null || grant.stopsBy <= this.nowMs);
  }

  phaseOf(grant: ModelGrant): Phase {
    if (grant.stopsBy !== null && this.nowMs < grant.stopsBy) return 'expiring';
    if (grant.end === 'expired' || (grant.end === null && !this.isUnexpired(grant))) {
      return 'expired';
    }
    if (grant.end !== null) return 'free';
    return grant.renewable ? 'held' : 'expiring';
  }

  grant(
    ask: ModelAsk,
  ): { granted: ModelGrant; from: ModelGrant | undefined } | { heldBy: ModelGrant } {
    const from = this.rows.get(resourceKey(ask.resource));
    if (from !== undefined && !this.isTakable(from)) return { heldBy: from };
    if (from?.end === null) this.#expire(from);
    const previousToken = from?.token ?? this.tokenFloor;
    const token = previousToken + 1n > BigInt(this.nowMs) ? previousToken + 1n : BigInt(this.nowMs);
    const { confirms: isUnconfirmed, ...asked } = ask;
    const expiresAt = this.nowMs + (isUnconfirmed ? UNCONFIRMED_LADDER : ask.ladder).ttlMs;
    const granted: ModelGrant = {
      ...asked,
      givenToken: token,
      token,
      expiresAt,
      isUnconfirmed,
      renewable: true,
      metadata: ask.metadata ?? null,
      end: null,
      stopsBy: null,
      overAt: expiresAt,
      believedUntilMs: 0,
      isAbandoned: false,
    };
    this.rows.set(resourceKey(ask.resource), granted);
    this.grants.push(granted);
    this.#write(from?.end === 'expired' ? 'taken_over' : 'granted', granted);
    return { granted, from };
  }

  /** Undefined when it is renewed. */
  renew(ref: ModelRef): RefusalReason | undefined {
    const grant = this.#find(ref);
    if (grant === undefined) return 'not_found';
    if (grant.end !== null) return grant.end === 'removed' ? 'expired' : grant.end;
    if (String(grant.token) !== ref.fencingToken) return 'superseded';
    if (!this.isUnexpired(grant)) {
      this.#expire(grant);
      return 'expired';
    }
    if (!grant.renewable) return 'renewal_blocked';
    grant.isUnconfirmed = false;
    grant.expiresAt = this.nowMs + grant.ladder.ttlMs;
    grant.overAt = grant.expiresAt;
    return undefined;
  }

  release(ref: ModelRef, result: 'ok' | 'failed'): ReleaseOutcome {
    const grant = this.#find(ref);
    if (grant === undefined) return 'not_found';
    if (grant.end === 'released') return 'already_released';
    if (grant.end !== null) return grant.end === 'removed' ? 'expired' : grant.end;
    if (String(grant.token) !== ref.fencingToken) return 'superseded';
    if (!this.isUnexpired(grant)) {
      this.#expire(grant);
      return 'expired';
    }
    grant.end = 'released';
    grant.overAt = Math.max(grant.overAt, this.nowMs);
    this.#write(result === 'ok' ? 'released' : 'failed', grant);
    return 'released';
  }

  update(ref: ModelRef, metadata: unknown): UpdateOutcome {
    const refused = (reason: Exclude<RefusalReason, 'renewal_blocked'>): UpdateOutcome => ({
      outcome: 'refused',
      reason,
    });
    const grant = this.#find(ref);
    if (grant === undefined) return refused('not_found');
    if (grant.end !== null) return refused(grant.end === 'removed' ? 'expired' : grant.end);
    if (!this.isUnexpired(grant)) {
      this.#expire(grant);
      return refused('expired');
    }
    if (String(grant.token) !== ref.fencingToken) return refused('superseded');
    grant.metadata = metadata;
    this.#write('updated', grant);
    return { outcome: 'updated' };
  }

  /** @returns whether it changed anything. */
  setRenewable(grant: ModelGrant, renewable: boolean): boolean {
    if (!this.isUnexpired(grant) || grant.renewable === renewable) return false;
    grant.renewable = renewable;
    this.#write(renewable ? 'renewal_allowed' : 'renewal_blocked', grant);
    return true;
  }

  revoke(grant: ModelGrant, mode: 'graceful' | 'force', abandon: boolean): RevokeOutcome {
    if (!this.isUnexpired(grant)) return 'gone';
    grant.renewable = false;
    if (mode === 'force') {
      grant.end = 'revoked';
      grant.token += 1n;
      grant.isAbandoned = abandon;
      if (grant.resource.face === 'key' && !abandon) grant.stopsBy = grant.expiresAt;
    }
    this.#write('revoked', grant);
    return mode === 'force' ? 'revoked' : 'revoking';
  }

  /** @returns whether it ended the grant. */
  remove(grant: ModelGrant): boolean {
    if (grant.end !== null || this.isUnexpired(grant)) return false;
    this.#expire(grant);
    grant.end = 'removed';
    this.#write('removed', grant);
    return true;
  }

  /** @returns the lease ids that it ended. */
  reap(): string[] {
    const lapsed = [...this.rows.values()].filter(
      (row) => row.end === null && !this.isUnexpired(row),
    );
    for (const grant of lapsed) this.#expire(grant);
    return lapsed.map((grant) => grant.leaseId);
  }

  deleteFree(): void {
    for (const [key, row] of this.rows) {
      const keptMs =
        row.resource.face === 'environment' ? FREE_ENVIRONMENT_KEPT_MS : FREE_ROW_KEPT_MS;
      const isLongOver = row.end !== null && row.overAt < this.nowMs - keptMs;
      const isBehind = row.token < BigInt(this.nowMs - TOKEN_MARGIN_MS);
      if (!isLongOver || !isBehind || this.owedCallbacks.has(row.leaseId)) continue;
      this.rows.delete(key);
      if (row.token > this.tokenFloor) this.tokenFloor = row.token;
    }
  }

  #find(ref: ModelRef): ModelGrant | undefined {
    return this.grants.find(
      (grant) =>
        grant.leaseId === ref.leaseId &&
        grant.principal === ref.principal &&
        grant.resource.face === ref.face,
    );
  }

  #expire(grant: ModelGrant): void {
    grant.end = 'expired';
    // Nobody began to use an unconfirmed grant.
    if (grant.resource.face === 'lease' && !grant.isUnconfirmed) {
      this.owedCallbacks.add(grant.leaseId);
    }
    this.#write('expired', grant);
  }

  #write(kind: EventKind, grant: ModelGrant): void {
    const key = resourceKey(grant.resource);
    const line = `${kind} ${grant.leaseId} ${String(grant.token)}`;
    this.events.set(key, [...(this.events.get(key) ?? []), line]);
  }
}
