import type { Ladder } from '../../kernel/lease/ladder.ts';
import { invariant } from '../../kernel/errors/index.ts';
import type { GrantRef, RefusalReason, RenewOutcome } from '../../kernel/lease/outcomes.ts';
import type { Face } from '../../kernel/resource/resource.ts';
import { isFace, type Sql } from '../../postgres/sql.ts';
import type { LogPlace } from '../../postgres/witness/witness-stamp.ts';
import { EXPIRED_FACTS, IS_CONFIRMED } from './parts/expired.ts';
import { LOG_PLACE } from '../../postgres/clock/expiry.ts';

/** A renewal that one holder asks for. `principal` is the authenticated caller, never a claimed one. */
export interface RenewRequest extends GrantRef {
  readonly principal: string;
}

/** All renewals of a statement that share one answer. */
interface JudgedGroup extends Ladder, LogPlace {
  /** Their places among the requests, from 1, separated by commas. */
  places: string;
  refusal: RefusalReason | null;
  remainingMs: number;
}

export interface Renewed {
  /** By lease id. */
  readonly outcomes: Map<string, RenewOutcome>;
  /** How far the log had come; undefined when nothing was renewed. */
  readonly place: LogPlace | undefined;
}

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
 */
export async function renew(
  sql: Sql<'guests' | 'renewals'>,
  face: Face,
  requests: readonly RenewRequest[],
): Promise<Renewed> {
  const principals = new Map<string, number>();
  for (const { principal } of requests) {
    if (!principals.has(principal)) principals.set(principal, principals.size + 1);
  }
  const groups = await sql.$queryRaw<JudgedGroup[]>`
    with asked as materialized (
      select
        a.lease_id, a.fencing_token, a.place,
        (${[...principals.keys()]}::text[])[a.principal_place] collate "C" as principal
      from unnest(
        ${arrayText(requests.map((r) => r.leaseId))}::uuid[],
        ${arrayText(requests.map((r) => r.fencingToken))}::bigint[],
        ${arrayText(requests.map((r) => principals.get(r.principal)))}::int[]
      ) with ordinality as a (lease_id, fencing_token, principal_place, place)
    ),
    judged as materialized (
      select
        k.row_at, k.lease_id, k.end_reason, a.place,
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
        j.place, l.expires_at, j.ttl_ms, j.renew_after_ms, j.soft_after_ms, j.hard_after_ms
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
    select
      string_agg(r.place::text, ',') as places, null as refusal,
      min(date_part('epoch', r.expires_at - clock_timestamp())) * 1000 as "remainingMs",
      r.ttl_ms as "ttlMs", r.renew_after_ms as "renewAfterMs",
      r.soft_after_ms as "softAfterMs", r.hard_after_ms as "hardAfterMs", ${LOG_PLACE}
    from renewed r
    group by r.ttl_ms, r.renew_after_ms, r.soft_after_ms, r.hard_after_ms
    union all
    select string_agg(j.place::text, ','), j.refusal, 0, 0, 0, 0, 0, '0', '0/0'
    from judged j
    where j.refusal is not null
    group by j.refusal`;
  const outcomes = new Map<string, RenewOutcome>();
  let place: LogPlace | undefined;
  for (const { places, refusal, remainingMs, run, position, ...ladder } of groups) {
    if (refusal === null) place = { run, position };
    for (const index of places.split(',')) {
      const leaseId = requests[Number(index) - 1]?.leaseId;
      if (leaseId === undefined) continue;
      outcomes.set(
        leaseId,
        refusal === null
          ? { leaseId, outcome: 'renewed', remainingMs, ladder }
          : { leaseId, outcome: 'refused', reason: refusal },
      );
    }
  }
  return { outcomes, place };
}

/**
 * Numbers and ids as one text in PostgreSQL's form of an array. The client library turns a list into
 * the same text, at several times the cost of the statement's other work on this side.
 */
function arrayText(values: readonly (string | number | undefined)[]): string {
  invariant(
    values.every((value) => typeof value !== 'string' || !value.includes(',')),
    'an id holds no comma',
  );
  return `{${values.join(',')}}`;
}
