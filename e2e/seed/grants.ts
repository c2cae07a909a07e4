import { DAY_MS, type Row, type World } from './world.ts';

/** A resource, and what its grants have in common. */
export interface Subject {
  readonly face: 'key' | 'lease' | 'environment';
  readonly namespace: string;
  readonly name: string;
}

/** One grant, present or past. */
export interface Grant {
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly holder: string;
  readonly principal: string;
  readonly actor: string;
  readonly grantedAgoMs: number;
}

/** How a grant ended, in the words of events. */
interface Ending {
  readonly kind: 'released' | 'failed' | 'expired' | 'revoked';
  readonly agoMs: number;
  readonly actor: string;
  readonly reason?: string | undefined;
  readonly detail?: Row | undefined;
}

/** A new grant as of some time ago; its token is what the database's clock gave then. */
export function grantOf(
  world: World,
  by: { readonly holder: string; readonly principal: string; readonly actor: string },
  grantedAgoMs: number,
): Grant {
  return {
    ...by,
    leaseId: world.chance.uuid(),
    fencingToken: String(world.nowMs - Math.floor(grantedAgoMs)),
    grantedAgoMs,
  };
}

/** Writes down that a grant was made. */
export function noteGrant(
  world: World,
  subject: Subject,
  grant: Grant,
  detail: Readonly<Record<string, unknown>> = {},
): void {
  const { holder, principal } = grant;
  noteEvent(world, subject, grant, {
    kind: 'granted',
    agoMs: grant.grantedAgoMs,
    actor: grant.actor,
    detail: { holder, principal, ...detail },
  });
}

/** Writes down that a grant has ended. */
export function noteEnding(world: World, subject: Subject, grant: Grant, ending: Ending): void {
  noteEvent(world, subject, grant, ending);
}

/** Writes down anything else that happened to a grant. */
export function noteEvent(
  world: World,
  subject: Subject,
  grant: Grant,
  fact: Omit<Ending, 'kind'> & { readonly kind: string },
): void {
  world.events.push({
    at: world.ago(fact.agoMs),
    ...subject,
    lease_id: grant.leaseId,
    fencing_token: grant.fencingToken,
    kind: fact.kind,
    actor: fact.actor,
    reason: fact.reason ?? null,
    detail: fact.detail ?? null,
  });
}

/** The columns that say who has been granted what; the rest of the row is the caller's. */
export function grantColumns(world: World, subject: Subject, grant: Grant): Row {
  return {
    ...subject,
    lease_id: grant.leaseId,
    fencing_token: grant.fencingToken,
    holder: grant.holder,
    principal: grant.principal,
    granted_at: world.ago(grant.grantedAgoMs),
  };
}

/** The line for a resource, the longest wait first. */
export function queueUp(
  world: World,
  subject: Subject,
  line: readonly { readonly waiter: string; readonly principal: string; readonly agoMs: number }[],
): void {
  for (const { waiter, principal, agoMs } of line) {
    world.waiters.push({
      ...subject,
      ticket_id: world.chance.uuid(),
      waiter,
      principal,
      created_at: world.ago(agoMs),
      // Nobody prolongs these tickets, so they are valid for a whole day.
      valid_until: world.ago(-DAY_MS),
    });
  }
}
