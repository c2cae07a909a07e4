/** How many renewals were refused a moment ago, beside all of them, and since when it is so. */
import {
  RENEWALS_JUDGED_MS,
  RENEWALS_LATELY_MS,
  REFUSED_SHARE_MIN,
  type RecentRenewals,
} from '../health/health.ts';
import { type Fragment, fragment, onlyRow, type Sql } from '../../postgres/sql.ts';
import { STATS_BUCKET_MS, bucketOf } from './stats-buckets.ts';

/** The first refusals of a longer run are not looked for. */
const LOOK_BACK_HOURS = 24;

const PLACES = RENEWALS_JUDGED_MS / STATS_BUCKET_MS;

function within(ms: number, column: Fragment): Fragment {
  return fragment`coalesce(sum(b.${column}) filter (
    where b.bucket_at > c.now - ${ms + STATS_BUCKET_MS}::int * interval '1 millisecond'
  ), 0)::float8`;
}

/**
 * The renewals of the last minutes. `since` is null unless too many were refused: then it is the first refusal of
 * the time in which, over {@link RENEWALS_JUDGED_MS} each, too many were. It is looked for only then. Locks
 * nothing. Index: the primary key, a range.
 */
export async function readRecentRenewals(sql: Sql<'guests'>): Promise<RecentRenewals> {
  const rows = await sql.$queryRaw<RecentRenewals[]>`
    with clock as materialized (select clock_timestamp() as now),
    recent as materialized (
      select
        ${within(RENEWALS_JUDGED_MS, fragment`renewals`)} as renewals,
        ${within(RENEWALS_JUDGED_MS, fragment`refused_renewals`)} as refused,
        ${within(RENEWALS_LATELY_MS, fragment`renewals`)} as "renewalsLately",
        ${within(RENEWALS_LATELY_MS, fragment`refused_renewals`)} as "refusedLately"
      from clock c
      left join stats_bucket b
        on b.bucket_at > c.now - ${RENEWALS_JUDGED_MS + STATS_BUCKET_MS}::int * interval '1 millisecond'
        and b.bucket_at <= c.now
    )
    select r.*, case
      when r.refused > 0 and r.refused >= ${REFUSED_SHARE_MIN}::float8 * (r.refused + r.renewals) then (
        with step as (
          select g.at, coalesce(sum(b.refused_renewals), 0) as refused, coalesce(sum(b.renewals), 0) as renewals
          from clock c
          cross join generate_series(
            ${bucketOf(fragment`c.now`)} - ${LOOK_BACK_HOURS}::int * interval '1 hour',
            ${bucketOf(fragment`c.now`)},
            ${STATS_BUCKET_MS}::int * interval '1 millisecond'
          ) as g (at)
          left join stats_bucket b on b.bucket_at = g.at
          group by g.at
        ),
        judged as (
          select s.at, s.refused as here, sum(s.refused) over w as refused, sum(s.renewals) over w as renewals
          from step s
          window w as (order by s.at rows between ${PLACES - 1}::int preceding and current row)
        ),
        run as (
          select max(j.at) as calm_at from judged j
          where j.refused = 0 or j.refused < ${REFUSED_SHARE_MIN}::float8 * (j.refused + j.renewals)
        )
        select extract(epoch from min(j.at))::float8 * 1000
        from judged j, run
        where j.here > 0 and (run.calm_at is null or j.at > run.calm_at)
      ) end as since
    from recent r`;
  return onlyRow(rows);
}
