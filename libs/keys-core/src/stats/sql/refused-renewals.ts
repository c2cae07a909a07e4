import type { GrantRef, RefusalReason } from '../../kernel/lease/outcomes.ts';
import type { Face } from '../../kernel/resource/resource.ts';
import { removeOld, type RetentionPass } from '../../postgres/retention-pass.ts';
import { fragment, type Sql } from '../../postgres/sql.ts';
import { bucketOf } from './stats-buckets.ts';

/** Refusals of one grant, for one reason, that make one event. */
export interface RefusedRow extends GrantRef {
  readonly face: Face;
  readonly principal: string;
  readonly reason: RefusalReason;
  readonly count: number;
  /** How long ago the first and the last one were. */
  readonly firstAgeMs: number;
  readonly lastAgeMs: number;
}

/** What is known of the grant of `r`: its row `l`, its facts `o`, its end `e` and the next grant `n`. */
const WHAT_IS_KNOWN = fragment`
      left join lateral (
        select l.lease_id, l.namespace, l.name, l.fencing_token, l.holder, l.expires_at
        from lease l where l.lease_id = r.lease_id limit 1
      ) l on true
      left join lateral (
        select v.namespace, v.name, v.fencing_token, v.actor, v.detail ->> 'holder' as holder
        from lease_event v
        where v.lease_id = r.lease_id and v.kind in ('granted', 'taken_over')
        limit 1
      ) g on true
      cross join lateral (
        select coalesce(g.namespace, l.namespace) as namespace, coalesce(g.name, l.name) as name,
          coalesce(g.fencing_token, l.fencing_token) as fencing_token,
          coalesce(g.holder, l.holder) as holder,
          coalesce(g.actor, l.holder, r.principal) as actor
      ) o
      left join lateral (
        select v.at from lease_event v
        where v.lease_id = r.lease_id
          and (v.kind in ('released', 'failed', 'expired', 'removed')
            or (v.kind = 'revoked' and v.detail ->> 'mode' = 'force'))
        order by v.id
        limit 1
      ) e on true
      left join lateral (
        select n.holder, n.fencing_token from lease n
        where n.face = r.face collate "C" and n.namespace = o.namespace and n.name = o.name
          and n.lease_id <> r.lease_id
        limit 1
      ) n on true`;

/**
 * Writes an event for each row and adds its number to the bucket of its instant, so that the statistics
 * count what the list of events shows.
 *
 * **Locks** rows of buckets in the order (bucket, face), as every statement that adds does. **Atomic
 * because** it is one statement: an event and its number are both there, or neither is. **Index**: for each
 * row `lease_lease_id_key`, `lease_pkey` and `lease_event_lease_id_idx`. A grant that neither a row nor an event
 * knows any more makes no event and is not counted. The holder, the token and the actor are those of the grant's
 * own event: a forced revoke raises the token of the row.
 */
export async function recordRefusedRenewals(
  sql: Sql<'general'>,
  rows: readonly RefusedRow[],
): Promise<void> {
  await sql.$queryRaw<{ face: Face }[]>`
    with refused as materialized (
      select r.face, r.lease_id, r.fencing_token, r.principal, r.reason, r.count,
        clock_timestamp() - r.first_age_ms * interval '1 millisecond' as at,
        clock_timestamp() - r.last_age_ms * interval '1 millisecond' as last_at
      from unnest(
        ${rows.map((row) => row.face)}::text[],
        ${rows.map((row) => row.leaseId)}::uuid[],
        ${rows.map((row) => row.fencingToken)}::bigint[],
        ${rows.map((row) => row.principal)}::text[],
        ${rows.map((row) => row.reason)}::text[],
        ${rows.map((row) => row.count)}::bigint[],
        ${rows.map((row) => row.firstAgeMs)}::float8[],
        ${rows.map((row) => row.lastAgeMs)}::float8[]
      ) as r (face, lease_id, fencing_token, principal, reason, count, first_age_ms, last_age_ms)
    ),
    fact as (
      insert into lease_event (
        at, face, namespace, name, lease_id, fencing_token, kind, actor, reason, detail
      )
      select r.at, r.face, o.namespace, o.name, r.lease_id, o.fencing_token, 'renewal_refused', o.actor,
        r.reason,
        jsonb_strip_nulls(jsonb_build_object(
          'holder', o.holder, 'principal', r.principal, 'count', r.count,
          'lastAt', case when r.count > 1 then r.last_at end,
          'askedToken', case when r.fencing_token <> o.fencing_token then r.fencing_token::text end,
          'endedAt', case when r.reason = 'expired' and l.lease_id is not null then l.expires_at else e.at end,
          'nextHolder', n.holder, 'nextToken', n.fencing_token::text
        ))
      from refused r
      ${WHAT_IS_KNOWN}
      where o.name is not null
      order by r.at, r.lease_id
      returning id, at, face, (detail ->> 'count')::bigint as count
    ),
    listed as (
      insert into refused_renewal (at, event_id) select f.at, f.id from fact f
    )
    insert into stats_bucket as t (bucket_at, face, refused_renewals)
    select ${bucketOf(fragment`f.at`)}, f.face, sum(f.count)
    from fact f
    group by 1, 2
    order by 1, 2
    on conflict (bucket_at, face) do update set
      refused_renewals = t.refused_renewals + excluded.refused_renewals
    returning t.face`;
}

/** Removes the places of events that are not kept any more. Index: the primary key. @returns how many. */
export function removeOldRefusals(
  sql: Sql<'general'>,
  pass: RetentionPass,
  retentionDays: number,
): Promise<number> {
  return removeOld(sql, pass, 'refused renewals', {
    old: fragment`
      select r.at, r.event_id from refused_renewal r
      where r.at < clock_timestamp() - ${retentionDays}::int * interval '1 day'
      order by r.at, r.event_id`,
    deletes: fragment`
      gone as (
        delete from refused_renewal r using old
        where r.at = old.at and r.event_id = old.event_id
        returning r.event_id
      )`,
  });
}
