/** How many resources are in which state at this moment, and which have the most waiters. */
import { BACKEND_STATUSES, type BackendStatus, statusRank } from '../../kernel/backends.ts';
import { type Face, FACES, RESERVED_NAMESPACE } from '../../kernel/resource.ts';
import { NEVER } from '../../postgres/clock/expiry.ts';
import {
  type Dated,
  type Fragment,
  fragment,
  isoDates,
  onlyRow,
  type Sql,
} from '../../postgres/sql.ts';
import {
  type RecentRenewals,
  REFUSED_SHARE_MIN,
  RENEWALS_JUDGED_MS,
  RENEWALS_LATELY_MS,
} from '../health.ts';
import type { ContendedResource, FaceCounts, FailingKey } from '../stats-types.ts';
import { bucketOf, STATS_BUCKET_MS } from './stats-buckets.ts';

/** The states of a face's resources. */
export interface ResourceCounts extends FaceCounts {
  /** The age of the oldest expiry that is not recorded yet; 0 for none. */
  readonly oldestOverdueMs: number;
  /**
   * When the first of the expiring grants was blocked or revoked, as epoch milliseconds; null for none, and if
   * more than {@link EXPIRING_DATED_MAX} are expiring.
   */
  readonly expiringSince: number | null;
}

/** The events of so many grants are read within some milliseconds. */
const EXPIRING_DATED_MAX = 1_000;

const NOTHING: ResourceCounts = {
  held: 0,
  expiring: 0,
  overdue: 0,
  contended: 0,
  waiters: 0,
  oldestOverdueMs: 0,
  expiringSince: null,
};

/**
 * Counts every face, except Leasehold's own leases. Reads all leases once, because no index holds
 * phases: it would slow down every grant and release. On a busy machine 65 ms at 100,000 rows, 0.4 to
 * 0.7 s at 1,000,000: callers that ask often should keep the answer for a while. Phases are those of
 * `phaseOf`, judged at one moment for all rows. Locks nothing.
 */
export async function countResources(sql: Sql<'guests'>): Promise<Record<Face, ResourceCounts>> {
  const rows = await sql.$queryRaw<(ResourceCounts & { face: Face })[]>`
    with clock as materialized (select clock_timestamp() as now),
    phases as (
      select l.face,
        count(*) filter (
          where l.end_reason is null and l.released_at is null and l.renewable and l.expires_at > c.now
        ) as held,
        count(*) filter (
          where (l.stops_by > c.now and l.stops_by < ${NEVER}) or (
            l.end_reason is null and l.released_at is null and not l.renewable and l.expires_at > c.now
          )
        ) as expiring,
        count(*) filter (
          where l.end_reason is null and l.released_at is null and l.expires_at <= c.now
        ) as overdue,
        min(l.expires_at) filter (
          where l.end_reason is null and l.released_at is null and l.expires_at <= c.now
        ) as oldest,
        (array_agg(l.lease_id) filter (
          where (l.stops_by > c.now and l.stops_by < ${NEVER}) or (
            l.end_reason is null and l.released_at is null and not l.renewable and l.expires_at > c.now
          )
        )) as expiring_ids
      from lease l
      cross join clock c
      where l.namespace <> ${RESERVED_NAMESPACE}
      group by l.face
    ),
    lines as (
      select w.face, count(distinct (w.namespace, w.name)) as contended, count(*) as waiters
      from lease_waiter w
      cross join clock c
      where w.valid_until > c.now
      group by w.face
    )
    select face, coalesce(p.held, 0)::float8 as held, coalesce(p.expiring, 0)::float8 as expiring,
      coalesce(p.overdue, 0)::float8 as overdue, coalesce(n.contended, 0)::float8 as contended,
      coalesce(n.waiters, 0)::float8 as waiters,
      coalesce(extract(epoch from (select c.now from clock c) - p.oldest), 0)::float8 * 1000
        as "oldestOverdueMs",
      case when p.expiring <= ${EXPIRING_DATED_MAX}::int then (
        select extract(epoch from min(v.at))::float8 * 1000
        from unnest(p.expiring_ids) as x (lease_id)
        join lease_event v on v.lease_id = x.lease_id
        where v.kind in ('renewal_blocked', 'revoked')
      ) end as "expiringSince"
    from phases p
    full join lines n using (face)`;
  const found = new Map(rows.map(({ face, ...counts }) => [face, counts]));
  const counts = FACES.map((face) => [face, found.get(face) ?? NOTHING] as const);
  return Object.fromEntries(counts) as Record<Face, ResourceCounts>;
}

/**
 * How many leases and environments each principal holds. Reads all leases once, as
 * {@link countResources} does and for the same reason: callers that ask often should keep the answer.
 * Principals that hold none are left out. Locks nothing.
 */
export async function countHeldLeases(sql: Sql<'guests'>): Promise<Map<string, number>> {
  const rows = await sql.$queryRaw<{ principal: string; held: number }[]>`
    select l.principal, count(*)::float8 as held
    from lease l
    where l.face <> 'key' and l.end_reason is null and l.released_at is null
      and l.expires_at > (select clock_timestamp())
    group by l.principal`;
  return new Map(rows.map(({ principal, held }) => [principal, held]));
}

/**
 * The resources with the most waiters, of all faces. Lapsed tickets do not count: their waiters died.
 * All tickets are read, being few compared with leases; index: `lease_pkey` for the holders. Locks nothing.
 */
export function readMostWaitedFor(sql: Sql<'guests'>, limit: number): Promise<ContendedResource[]> {
  return sql.$queryRaw<ContendedResource[]>`
    with line as materialized (
      select w.face, w.namespace, w.name, count(*) as waiters, min(w.created_at) as since
      from lease_waiter w
      where w.valid_until > clock_timestamp()
      group by w.face, w.namespace, w.name
      order by count(*) desc, min(w.created_at), w.face, w.namespace, w.name
      limit ${limit}
    )
    select n.face, n.namespace, n.name, l.holder, n.waiters::float8 as waiters,
      greatest(0, extract(epoch from clock_timestamp() - n.since))::float8 * 1000 as "longestWaitMs"
    from line n
    left join lateral (
      select l.holder from lease l
      where l.face = n.face and l.namespace = n.namespace and l.name = n.name
        and lease_unexpired(l.released_at, l.end_reason, l.expires_at)
    ) l on true
    order by n.waiters desc, n.since, n.face, n.namespace, n.name`;
}

/** A failure that is older than this is not shown, whether or not somebody has connected since. */
const FAILING_MINUTES = 60;

/**
 * Keys whose newest backend has failed within the last hour, the latest failure first. Reads all rows of `key_failure`, of
 * which each key has one at most, and loses it with a clean end; index: `backend_key_idx`. Locks nothing.
 */
export async function readFailingKeys(sql: Sql<'guests'>, limit: number): Promise<FailingKey[]> {
  const rows = await sql.$queryRaw<Dated<FailingKey, 'since' | 'failedAt'>[]>`
    select k.namespace, k.name, k.failures, k.since, k.failed_at as "failedAt",
      k.backend_id as "backendId", b.reason, b.exit_code as "exitCode"
    from key_failure k
    join backend b on b.id = k.backend_id
    where k.failed_at > clock_timestamp() - ${FAILING_MINUTES}::int * interval '1 minute'
      and not exists (
        select from backend n
        where n.namespace = k.namespace and n.name = k.name and n.created_at > b.created_at
          and n.status = 'ready'
      )
    order by k.failed_at desc, k.namespace, k.name
    limit ${limit}`;
  return rows.map((row) => isoDates(row));
}

/**
 * Backends that have not terminated, by status. Terminated ones are kept for a month, so this reads
 * `backend_drone_id_status_rank_idx`, which has no text in it, or the table while it is small.
 */
export async function countLiveBackends(
  sql: Sql<'guests'>,
): Promise<Partial<Record<BackendStatus, number>>> {
  const rows = await sql.$queryRaw<{ rank: number; count: number }[]>`
    select b.status_rank as rank, count(*)::int as count
    from backend b
    where b.status_rank < ${statusRank('terminated')}
    group by b.status_rank
    order by b.status_rank`;
  const counts: Partial<Record<BackendStatus, number>> = {};
  for (const { rank, count } of rows) {
    const status = BACKEND_STATUSES[rank];
    if (status !== undefined) counts[status] = count;
  }
  return counts;
}

// How many renewals were refused a moment ago, beside all of them, and since when it is so.

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

// Since when the system is healthy, or not. One row, which the controllers that judge keep.

/** After a longer time without a judgement it is not known what was meanwhile. */
const UNJUDGED_S_MAX = 60;

/**
 * Records a judgement. What it says is so since now, unless the last judgement was the same and is not too
 * long ago.
 *
 * **Locks** the only row. **Atomic because** `set` judges the row as it is after the lock, so two controllers that
 * judge at once do not begin the time again. **Index**: the primary key.
 */
export async function recordHealth(sql: Sql<'general'>, isHealthy: boolean): Promise<void> {
  await sql.$queryRaw<{ since: Date }[]>`
    insert into health as h (is_healthy, since, judged_at)
    select ${isHealthy}::boolean, c.now, c.now from (select clock_timestamp() as now) c
    on conflict (only_row) do update set
      is_healthy = excluded.is_healthy,
      since = case
        when h.is_healthy = excluded.is_healthy
          and h.judged_at > excluded.judged_at - ${UNJUDGED_S_MAX}::int * interval '1 second'
          then h.since
        else excluded.since
      end,
      judged_at = excluded.judged_at
    returning h.since`;
}

/** The last judgement and since when it is so, as epoch milliseconds; null when it is too long ago. */
export async function readHealth(
  sql: Sql<'guests'>,
): Promise<{ readonly isHealthy: boolean; readonly since: number } | null> {
  const rows = await sql.$queryRaw<{ isHealthy: boolean; since: number }[]>`
    select h.is_healthy as "isHealthy", extract(epoch from h.since)::float8 * 1000 as since
    from health h
    where h.judged_at > clock_timestamp() - ${UNJUDGED_S_MAX}::int * interval '1 second'`;
  return rows[0] ?? null;
}
