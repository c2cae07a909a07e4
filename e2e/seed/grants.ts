import { DAY_MS, type Row, type World } from './world.ts';

/** A resource, and what its grants have in common. */
export interface Subject {
  readonly face: 'key' | 'lease' | 'environment';
  readonly namespace: string;
  readonly name: string;
}

/** Who was granted something. */
export interface By {
  readonly holder: string;
  readonly principal: string;
  readonly actor: string;
}

/** One grant, present or past. */
export interface Grant extends By {
  readonly subject: Subject;
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly grantedAgoMs: number;
}

/** Something that happened to a grant, in the words of events. */
export interface Fact {
  readonly kind: string;
  readonly agoMs: number;
  readonly actor: string;
  readonly reason?: string | undefined;
  readonly detail?: Row | undefined;
}

/** A new grant as of some time ago, with its event; its token is what the database's clock gave then. */
export function addGrant(
  world: World,
  subject: Subject,
  { holder, principal, actor }: By,
  grantedAgoMs: number,
  { leaseId = world.chance.uuid(), detail = {} } = {},
): Grant {
  const fencingToken = String(world.nowMs - Math.floor(grantedAgoMs));
  const grant = { subject, leaseId, fencingToken, holder, principal, actor, grantedAgoMs };
  const said = { holder, principal, ...detail };
  noteFact(world, grant, { kind: 'granted', agoMs: grantedAgoMs, actor, detail: said });
  return grant;
}

/** Writes down what happened to a grant. */
export function noteFact(world: World, grant: Grant, { agoMs, ...fact }: Fact): void {
  world.add('lease_event', {
    at: world.ago(agoMs),
    ...grant.subject,
    lease_id: grant.leaseId,
    fencing_token: grant.fencingToken,
    ...fact,
  });
}

/** The end of a grant by an operator. */
export function revokedBy(actor: string, agoMs: number, reason: string, detail?: Row): Fact {
  return { kind: 'revoked', agoMs, actor, reason, detail };
}

/** Puts the row of a resource into the world: that of its latest grant. `ladder` has the columns of one. */
export function addLeaseRow(
  world: World,
  grant: Grant,
  of: { readonly ladder: Ladder; readonly renewedAgoMs: number; readonly more: Row },
): void {
  world.add('lease', {
    ...grant.subject,
    lease_id: grant.leaseId,
    fencing_token: grant.fencingToken,
    holder: grant.holder,
    principal: grant.principal,
    granted_at: world.ago(grant.grantedAgoMs),
    renewed_at: world.ago(Math.min(of.renewedAgoMs, grant.grantedAgoMs)),
    expires_at: world.ago(of.renewedAgoMs - of.ladder.ttl_ms),
    tag: '',
    renewable: true,
    ...of.ladder,
    ...of.more,
  });
}

export interface Ladder {
  readonly renew_after_ms: number;
  readonly soft_after_ms: number;
  readonly hard_after_ms: number;
  readonly ttl_ms: number;
}

/** The ladder of a service's lease, made from its TTL. */
export function ladderOf(ttlMs: number): Ladder {
  const loseAfterMs = ttlMs - Math.max(Math.ceil(ttlMs / 6), 250);
  return {
    renew_after_ms: Math.min(Math.floor(ttlMs / 3), 30_000),
    soft_after_ms: loseAfterMs,
    hard_after_ms: loseAfterMs,
    ttl_ms: ttlMs,
  };
}

/** Puts somebody in line for a resource. */
export function queueUp(
  world: World,
  subject: Subject,
  { waiter, principal, agoMs }: { waiter: string; principal: string; agoMs: number },
): void {
  world.add('lease_waiter', {
    ...subject,
    ticket_id: world.chance.uuid(),
    waiter,
    principal,
    created_at: world.ago(agoMs),
    // Nobody prolongs these tickets, so they are valid for a whole day.
    valid_until: world.ago(-DAY_MS),
  });
}
