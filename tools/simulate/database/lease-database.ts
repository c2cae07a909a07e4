/**
 * A database in a simulated world: the oracle of the kernel's statements, which a test keeps equal to
 * PostgreSQL (`kernel.model.pg.test.ts`), on a clock that may be stepped. SQL itself is not simulated.
 */
import { LeaseModel, type ModelGrant } from '../../../libs/keys-core/src/kernel/lease-model.ts';
import { UNCONFIRMED_LADDER, type Ladder } from '../../../libs/keys-core/src/kernel/ladder.ts';
import type {
  Grant,
  GrantRef,
  GrantRequest,
  LeaseRow,
  ReleaseOutcome,
  RenewOutcome,
} from '../../../libs/keys-core/src/kernel/lease.ts';
import {
  resourceKey,
  type Face,
  type Resource,
} from '../../../libs/keys-core/src/kernel/resource.ts';
import type { ClockBelief } from '../../../libs/keys-core/src/postgres/clock/clock-watch.ts';
import type { Machine } from '../engine/process.ts';
import type { World } from '../engine/world.ts';
import { Ledger } from './ledger.ts';

export type Granting =
  | { readonly granted: Grant; readonly previousId: string | undefined }
  | { readonly heldBy: LeaseRow };

/** A holder's reference to its grant. */
export type HolderRef = GrantRef & { readonly principal: string };

export class LeaseDatabase {
  readonly ledger: Ledger;
  readonly machine: Machine;
  readonly #world: World;
  readonly #model: LeaseModel;
  readonly #grants = new Map<string, ModelGrant>();
  readonly #renewedAt = new Map<string, number>();

  constructor(world: World, machine: Machine, ledger: Ledger = new Ledger(world)) {
    this.#world = world;
    this.machine = machine;
    this.#model = new LeaseModel(Math.floor(machine.wallMs()));
    this.ledger = ledger;
  }

  /** The database's clock, as every statement reads it. */
  now(): number {
    const nowMs = Math.floor(this.machine.wallMs());
    this.#model.nowMs = nowMs;
    return nowMs;
  }

  /** By how much the clock is stepped. */
  step(ms: number): void {
    this.#world.trace(() => `the database's clock is stepped by ${String(ms)} ms`);
    this.machine.stepMs += ms;
  }

  /** Grants a resource that is free or has surely expired. */
  grant(request: GrantRequest, belief: ClockBelief): Granting {
    const nowMs = this.now();
    const key = resourceKey(request);
    const row = this.#model.rows.get(key);
    if (row !== undefined && !(this.#model.isTakable(row) && this.#isSurelyOver(row, belief))) {
      return { heldBy: this.#rowOf(row) };
    }
    if (row !== undefined && this.#world.has('token-from-clock')) row.token = 0n;
    if (row?.end === null) this.ledger.lapsed(row.leaseId, nowMs);
    const { leaseId, holder, principal, ladder, confirms = false } = request;
    const asked = { leaseId, holder, principal, ladder, confirms };
    const made = this.#model.grant({ resource: resourceOf(request), ...asked });
    if ('heldBy' in made) throw new Error('the row was takable');
    const grant = made.granted;
    this.#grants.set(leaseId, grant);
    this.#renewedAt.set(leaseId, nowMs);
    const { token, expiresAt } = grant;
    this.ledger.granted({ key: request.name, leaseId, holder, token, expiresAt }, nowMs);
    return { granted: grantOf(grant, nowMs), previousId: row?.leaseId };
  }

  renew(face: Face, { leaseId, fencingToken, principal }: HolderRef): RenewOutcome {
    const nowMs = this.now();
    const grant = this.#grants.get(leaseId);
    if (grant !== undefined && this.#world.has('renewal-revives')) this.#revive(grant);
    const reason = this.#model.renew({ face, leaseId, fencingToken, principal });
    if (reason === 'expired') this.ledger.lapsed(leaseId, nowMs);
    if (reason !== undefined || grant === undefined) {
      return { leaseId, outcome: 'refused', reason: reason ?? 'not_found' };
    }
    this.#renewedAt.set(leaseId, nowMs);
    this.ledger.renewed(leaseId, grant.expiresAt, nowMs);
    const remainingMs = grant.expiresAt - nowMs;
    return { leaseId, outcome: 'renewed', remainingMs, ladder: grant.ladder };
  }

  release(face: Face, { leaseId, fencingToken, principal }: HolderRef): ReleaseOutcome {
    const nowMs = this.now();
    const outcome = this.#model.release({ face, leaseId, fencingToken, principal }, 'ok');
    if (outcome === 'released') this.ledger.ended(leaseId, 'released');
    if (outcome === 'expired') this.ledger.lapsed(leaseId, nowMs);
    return outcome;
  }

  /** Blocks renewal, or ends the grant by force: a key is then held back while its backend may run. */
  revoke(leaseId: string, mode: 'graceful' | 'force'): void {
    this.now();
    const grant = this.#grants.get(leaseId);
    if (grant === undefined || this.#model.revoke(grant, mode, false) !== 'revoked') return;
    if (grant.stopsBy === null) this.ledger.ended(leaseId, 'revoked');
  }

  /** The backend of a key that was ended by force is gone. */
  stopped(leaseId: string): void {
    const grant = this.#grants.get(leaseId);
    if (grant?.end !== 'revoked') return;
    grant.stopsBy = null;
    this.ledger.ended(leaseId, 'revoked, and stopped');
  }

  /** Whether somebody has it, by the database's clock. */
  isHeld(resource: Resource): boolean {
    this.now();
    const row = this.#model.rows.get(resourceKey(resource));
    return row !== undefined && !this.#model.isTakable(row);
  }

  /** The id of the newest grant of a resource. */
  newestId(resource: Resource): string | undefined {
    return this.#model.rows.get(resourceKey(resource))?.leaseId;
  }

  /** A grant with its present ladder, whatever has become of it. */
  past(
    leaseId: string,
  ): (Grant & { readonly holder: string; readonly principal: string }) | undefined {
    const grant = this.#grants.get(leaseId);
    if (grant === undefined) return undefined;
    const { holder, principal, end } = grant;
    const { remainingMs, ...rest } = grantOf(grant, this.now());
    return { ...rest, holder, principal, remainingMs: end === null ? Math.max(0, remainingMs) : 0 };
  }

  /** Whether an expiry may be acted on, as `postgres/clock/expiry.ts` has it in SQL. */
  #isSurelyOver(row: ModelGrant, { until, watchedSince, settledUntil }: ClockBelief): boolean {
    const isEndedByWord = row.end !== null && row.end !== 'expired' && row.stopsBy === null;
    if (isEndedByWord || this.#world.has('jump-believed')) return true;
    const nowMs = this.machine.wallMs();
    if (nowMs > until) return false;
    return (
      (this.#renewedAt.get(row.leaseId) ?? 0) >= watchedSince ||
      nowMs >= watchedSince + row.ladder.ttlMs ||
      Math.max(row.expiresAt, row.stopsBy ?? 0) <= settledUntil
    );
  }

  #revive(grant: ModelGrant): void {
    const isNewest = this.#model.rows.get(resourceKey(grant.resource)) === grant;
    if (!isNewest || !(grant.end === null || grant.end === 'expired')) return;
    grant.end = null;
    grant.expiresAt = Math.max(grant.expiresAt, this.#model.nowMs + 1);
  }

  #rowOf(grant: ModelGrant): LeaseRow {
    const { face, namespace, name } = grant.resource;
    const { ttlMs, renewAfterMs, softAfterMs, hardAfterMs } = presentLadder(grant);
    return {
      face,
      namespace,
      name,
      ttlMs,
      renewAfterMs,
      softAfterMs,
      hardAfterMs,
      leaseId: grant.leaseId,
      fencingToken: String(grant.token),
      holder: grant.holder,
      principal: grant.principal,
      tag: '',
      comment: null,
      grantedAt: 0,
      renewedAt: this.#renewedAt.get(grant.leaseId) ?? 0,
      expiresAt: grant.expiresAt,
      asOf: this.#model.nowMs,
      releasedAt: grant.end === 'released' ? grant.overAt : null,
      endReason: grant.end,
      renewable: grant.renewable,
      stopsBy: grant.stopsBy,
    };
  }
}

function resourceOf({ face, namespace, name }: Resource): Resource {
  return { face, namespace, name };
}

function presentLadder(grant: ModelGrant): Ladder {
  return grant.isUnconfirmed ? UNCONFIRMED_LADDER : grant.ladder;
}

function grantOf(grant: ModelGrant, nowMs: number): Grant {
  return {
    ...grant.resource,
    leaseId: grant.leaseId,
    fencingToken: String(grant.givenToken),
    ladder: presentLadder(grant),
    grantedAt: nowMs,
    expiresAt: grant.expiresAt,
    asOf: nowMs,
    remainingMs: grant.expiresAt - nowMs,
    freeMs: null,
    previous: null,
  };
}
