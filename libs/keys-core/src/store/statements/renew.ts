import type { GrantRef, RefusalReason, RenewOutcome } from '../../kernel/outcomes.ts';
import type { Face } from '../../kernel/resource.ts';
import { Prisma } from '../generated/client.ts';
import type { Sql } from '../rows.ts';

/** A renewal that one holder asks for. `principal` is who is authenticated, never who they say. */
export interface RenewRequest extends GrantRef {
  readonly principal: string;
}

interface JudgedRow {
  leaseId: string;
  refusal: RefusalReason | null;
  remainingMs: number;
  ttlMs: number;
  renewAfterMs: number;
  softAfterMs: number;
  hardAfterMs: number;
}

/**
 * Extends each grant that is in force, renewable and asked for by its holder with its token, by the
 * ladder that is stored with it.
 *
 * - **Locks first, judges then**: a renewal that passed its condition and then waited for the row
 *   was seen to revive an expired grant. The CTE `locked` takes the rows, one probe of the index
 *   each; `judged` reads the clock after that.
 * - **Skips locked rows** (`onLocked: 'skip'`): one row that somebody holds must not stop the other
 *   9,999. What was skipped has no answer here and is asked for again, alone and waiting. A batch
 *   that waits for no row cannot be part of a deadlock, so it needs no order of locking.
 * - **Says "expired" for good**: a grant that it refuses as expired is ended in the same statement,
 *   so that no step of the clock can make the next renewal succeed.
 * - **Index**: `lease_lease_id_key`. Changes no indexed column, so that it stays HOT.
 * - **A request without an answer** was skipped, or no row has its lease id and principal any more.
 */
export async function renew(
  sql: Sql,
  face: Face,
  requests: readonly RenewRequest[],
  onLocked: 'skip' | 'wait',
): Promise<Map<string, RenewOutcome>> {
  const skip = onLocked === 'skip' ? Prisma.sql`skip locked` : Prisma.empty;
  const rows = await sql.$queryRaw<JudgedRow[]>`
    with asked as materialized (
      select a.lease_id, a.fencing_token, a.principal collate "C" as principal
      from unnest(
        ${requests.map((r) => r.leaseId)}::uuid[],
        ${requests.map((r) => r.fencingToken)}::bigint[],
        ${requests.map((r) => r.principal)}::text[]
      ) as a (lease_id, fencing_token, principal)
    ),
    locked as materialized (
      select k.*, a.fencing_token as asked_token
      from asked a
      cross join lateral (
        select
          l.face, l.namespace, l.name, l.lease_id, l.fencing_token, l.released_at, l.end_reason,
          l.expires_at, l.renewable, l.ttl_ms, l.renew_after_ms, l.soft_after_ms, l.hard_after_ms
        from lease l
        where l.lease_id = a.lease_id and l.principal = a.principal and l.face = ${face}
        for no key update of l ${skip}
      ) k
    ),
    judged as materialized (
      select k.*,
        case
          when k.end_reason = 'removed' then 'expired'
          when k.end_reason is not null then k.end_reason
          when k.fencing_token <> k.asked_token then 'superseded'
          when not lease_unexpired(k.released_at, k.end_reason, k.expires_at) then 'expired'
          when not k.renewable then 'renewal_blocked'
        end as refusal
      from locked k
    ),
    renewed as (
      update lease l
      set renewed_at = clock_timestamp(),
          expires_at = clock_timestamp() + l.ttl_ms * interval '1 millisecond'
      from judged j
      where l.lease_id = j.lease_id and j.refusal is null
      returning l.lease_id, l.expires_at
    ),
    lapsed as (
      update lease l
      set end_reason = 'expired'
      from judged j
      where l.lease_id = j.lease_id and j.refusal = 'expired' and j.end_reason is null
      returning l.face, l.namespace, l.name, l.lease_id, l.fencing_token
    ),
    fact as (
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor)
      select x.face, x.namespace, x.name, x.lease_id, x.fencing_token, 'expired', 'leasehold'
      from lapsed x
      order by x.face, x.namespace, x.name
    ),
    reap as (
      insert into lease_reap (lease_id, face, namespace, name, fencing_token)
      select x.lease_id, x.face, x.namespace, x.name, x.fencing_token
      from lapsed x
      where x.face = 'lease'
    )
    select
      j.lease_id as "leaseId", j.refusal,
      coalesce(extract(epoch from r.expires_at - clock_timestamp()), 0)::float8 * 1000 as "remainingMs",
      j.ttl_ms as "ttlMs", j.renew_after_ms as "renewAfterMs",
      j.soft_after_ms as "softAfterMs", j.hard_after_ms as "hardAfterMs"
    from judged j
    left join renewed r on r.lease_id = j.lease_id`;
  const outcomes = new Map<string, RenewOutcome>();
  for (const { leaseId, refusal, remainingMs, ...ladder } of rows) {
    outcomes.set(
      leaseId,
      refusal === null
        ? { leaseId, outcome: 'renewed', remainingMs, ladder }
        : { leaseId, outcome: 'refused', reason: refusal },
    );
  }
  return outcomes;
}
