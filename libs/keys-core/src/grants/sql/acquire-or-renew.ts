import type { Ladder } from '../../kernel/lease/ladder.ts';
import { invariant } from '../../kernel/errors/index.ts';
import type { GrantRequest } from '../../kernel/lease/outcomes.ts';
import { C, type Sql } from '../../postgres/sql.ts';
import type { LogPlace } from '../../postgres/witness/witness-stamp.ts';
import { GRANT_EVENTS } from './parts/grant-facts.ts';
import { upsertGrants } from './parts/upsert-grants.ts';
import { isHeldOff, isTakable, LOG_PLACE, type GrantGuard } from '../../postgres/clock/expiry.ts';

/** What the holder has now. Instants are epoch milliseconds of the database. */
export interface AcquiredOrRenewed extends LogPlace, Ladder {
  readonly outcome: 'granted' | 'renewed';
  /** The requested id, unless a grant had it before. */
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly expiresAt: number;
  readonly asOf: number;
  /** When a renewed grant would have expired; null for a new one. */
  readonly expiredAt: number | null;
  /** How the grant before a new one ended; null when none existed, and for a renewed one. */
  readonly previousEnd: string | null;
}

/**
 * Renews the grant in force that this holder of this principal has, its token unchanged; otherwise
 * grants the resource if it is free or expired and nobody waits in line for it.
 *
 * It trusts the holder's name, so it is not on the wire: two processes of one name have one lease.
 *
 * - **Locks first, judges then**: `mine` is locked `for no key update`, as every renewal is, so that it
 *   passes beside a fenced transaction of its own. Only when nothing was renewed is a row locked to
 *   be taken over, as in {@link grant}, by the same judgement and with the same kind of token.
 * - **Skips locked rows**: the leader asks again soon, and must not wait for a row meanwhile.
 * - **Atomic because** it is one statement, and because {@link upsertGrants} judges after the row lock.
 * - **A new grant has a new id**: the one that is asked for, unless a grant had it before. Callers that
 *   repeat the request need not make a new id each time.
 * - **Index**: the primary key; `lease_event_lease_id_idx` for the id.
 * - **Undefined**: another holder has it, renewal of the caller's grant is blocked, somebody waits in
 *   line, or the row was locked or changed meanwhile. The caller reads which it was.
 */
export async function acquireOrRenew(
  sql: Sql<'general' | 'guests'>,
  r: GrantRequest,
  { belief, mark }: GrantGuard,
): Promise<AcquiredOrRenewed | undefined> {
  invariant(r.idempotencyKey === undefined, 'acquireOrRenew is repeated, not replayed');
  const metadata = r.metadata == null ? null : JSON.stringify(r.metadata);
  const rows = await sql.$queryRaw<AcquiredOrRenewed[]>`
    with wanted as materialized (
      select
        case
          when exists (select from lease_event e where e.lease_id = ${r.leaseId}::uuid)
            then gen_random_uuid()
          else ${r.leaseId}::uuid
        end as lease_id,
        ${r.face} ${C} as face, ${r.namespace} ${C} as namespace,
        ${r.name} ${C} as name, ${r.holder} as holder, ${r.principal} ${C} as principal,
        ${r.tag} as tag, ${r.comment}::text as comment, ${metadata}::jsonb as metadata,
        ${r.ladder.ttlMs}::int as ttl_ms, ${r.ladder.ttlMs}::int as first_ms,
        ${r.ladder.renewAfterMs}::int as renew_after_ms,
        ${r.ladder.softAfterMs}::int as soft_after_ms, ${r.ladder.hardAfterMs}::int as hard_after_ms,
        ${r.actor} as actor, null::text as home_reservation
    ),
    mine as materialized (
      select
        l.lease_id, l.renewable, l.released_at, l.end_reason, l.expires_at
      from wanted w
      join lease l on l.face = w.face and l.namespace = w.namespace and l.name = w.name
      where l.holder = w.holder and l.principal = w.principal and l.end_reason is null
      for no key update of l skip locked
    ),
    renewed as (
      update lease l
      set renewed_at = clock_timestamp(),
          expires_at = clock_timestamp() + l.ttl_ms * interval '1 millisecond'
      from mine m
      where l.lease_id = m.lease_id and m.renewable
        and lease_unexpired(m.released_at, m.end_reason, m.expires_at)
      returning l.*, m.expires_at as expired_at
    ),
    takable as materialized (
      select l.face
      from wanted w
      join lease l on l.face = w.face and l.namespace = w.namespace and l.name = w.name
      where not exists (select from renewed)
        and ${isTakable(belief)}
      for update of l skip locked
    ),
    candidate as (
      select w.*
      from wanted w
      where not exists (select from renewed)
        and (exists (select from takable) or not exists (
          select from lease l
          where l.face = w.face and l.namespace = w.namespace and l.name = w.name
        ))
        and not exists (
          select from lease_waiter o
          where o.face = w.face and o.namespace = w.namespace and o.name = w.name
            and o.valid_until > clock_timestamp()
        )
        and not ${isHeldOff(mark)}
    ),
    ${upsertGrants(isTakable(belief))},
    ${GRANT_EVENTS}
    select
      a.outcome, a.lease_id as "leaseId", a.fencing_token::text as "fencingToken",
      extract(epoch from a.expires_at)::float8 * 1000 as "expiresAt",
      extract(epoch from clock_timestamp())::float8 * 1000 as "asOf",
      a.ttl_ms as "ttlMs", a.renew_after_ms as "renewAfterMs",
      a.soft_after_ms as "softAfterMs", a.hard_after_ms as "hardAfterMs",
      extract(epoch from a.expired_at)::float8 * 1000 as "expiredAt",
      a.previous_end as "previousEnd", ${LOG_PLACE}
    from (
      select 'renewed' as outcome, n.lease_id, n.fencing_token, n.expires_at, n.ttl_ms,
        n.renew_after_ms, n.soft_after_ms, n.hard_after_ms, n.expired_at, null::text as previous_end
      from renewed n
      union all
      select 'granted', g.lease_id, g.fencing_token, g.expires_at, g.ttl_ms,
        g.renew_after_ms, g.soft_after_ms, g.hard_after_ms, null, g.previous_end
      from granted g
    ) a`;
  return rows[0];
}
