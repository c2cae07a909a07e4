import type { Face } from '../../../kernel/resource/resource.ts';
import { isFace, type Sql } from '../../../postgres/sql.ts';
import { EXPIRED_FACTS, IS_CONFIRMED } from '../parts/expired.ts';
import {
  askedRenewals,
  type JudgedGroup,
  LADDER,
  RENEWED_COLUMNS,
  type Renewed,
  renewedOf,
  type RenewRequest,
} from './renewal-rows.ts';

/**
 * Extends each grant that is in force, renewable and asked for by its holder with its token, by the
 * ladder that is stored with it.
 *
 * - **Locks first, judges then**: a renewal that passed its condition and then waited for the row
 *   was seen to revive an expired grant. The inner query takes each row, by one probe of the index,
 *   and is never merged into the outer one, because it locks; the outer one reads the clock after it.
 * - **Skips locked rows**: one locked row must not stop the other 9,999. A skipped renewal has no
 *   answer here and is tried again. A statement that waits for no row cannot be part of a deadlock, so
 *   it needs no order of locking.
 * - **Says "expired" permanently**: a grant that it refuses as expired is ended in the same statement,
 *   so that no step of the clock can make the next renewal succeed.
 * - **Finds a locked row by its place** (`ctid`), which is a quarter of the price of the index. A row
 *   that another transaction has changed since the statement's snapshot is not found that way, and
 *   has no answer: as if it had been skipped.
 * - **Index**: `lease_lease_id_key`. Changes no indexed column, so that it stays HOT.
 * - **Answers in groups**: a thousand grants of one ladder are one row, because each row of an answer
 *   costs time in the driver. The remaining time of a group is its shortest, so that it is early by the
 *   statement's own time at most, and never late.
 * - **A request without an answer** was skipped, or no row has its lease id and principal any more.
 *
 * Most renewals are carried out by `renew-in-time.ts` and do not come here.
 */
export async function renew(
  sql: Sql<'guests' | 'renewals'>,
  face: Face,
  requests: readonly RenewRequest[],
): Promise<Renewed> {
  const groups = await sql.$queryRaw<JudgedGroup[]>`
    with asked as materialized (${askedRenewals(requests)}),
    judged as materialized (
      select
        k.row_at, k.lease_id, k.end_reason,
        k.ttl_ms, k.renew_after_ms, k.soft_after_ms, k.hard_after_ms,
        case
          when k.end_reason = 'removed' then 'expired'
          when k.end_reason is not null then k.end_reason
          when k.fencing_token <> a.fencing_token then 'superseded'
          when not lease_unexpired(k.released_at, k.end_reason, k.expires_at) then 'expired'
          when not k.renewable then 'renewal_blocked'
        end as refusal
      from asked a
      cross join lateral (
        select
          l.ctid as row_at, l.lease_id, l.fencing_token, l.released_at, l.end_reason, l.expires_at,
          l.renewable, l.ttl_ms, l.renew_after_ms, l.soft_after_ms, l.hard_after_ms
        from lease l
        where l.lease_id = a.lease_id and l.principal = a.principal and l.face ${isFace(face)}
        for no key update of l skip locked
      ) k
    ),
    renewed as (
      update lease l
      set renewed_at = clock_timestamp(),
          expires_at = clock_timestamp() + l.ttl_ms * interval '1 millisecond'
      from judged j
      where l.ctid = j.row_at and j.refusal is null
      returning
        l.lease_id, l.expires_at, j.ttl_ms, j.renew_after_ms, j.soft_after_ms, j.hard_after_ms
    ),
    expired as (
      update lease l
      set end_reason = 'expired'
      from judged j
      where l.lease_id = any(array(select k.lease_id from judged k where k.refusal = 'expired'))
        and l.lease_id = j.lease_id and j.refusal = 'expired' and j.end_reason is null
      returning l.face, l.namespace, l.name, l.lease_id, l.fencing_token, ${IS_CONFIRMED}
    ),
    ${EXPIRED_FACTS}
    select ${RENEWED_COLUMNS}
    from renewed r
    group by ${LADDER}
    union all
    select string_agg(j.lease_id::text, ','), j.refusal, 0, 0, 0, 0, 0, '0', '0/0'
    from judged j
    where j.refusal is not null
    group by j.refusal`;
  return renewedOf(groups);
}
