/**
 * What happened in each ten seconds of the database's clock, by face. Everything is added, never
 * set, so that any number of controllers may write at once; there are 27,000 rows at most, those of
 * 25 hours, whatever the load.
 */
import { EPOCH, FinalMark, readEventMark } from '../../events/index.ts';
import { BACKEND_STATUSES, type BackendStatus, statusRank } from '../../kernel/backends.ts';
import { type Face, FACES, RESERVED_NAMESPACE } from '../../kernel/resource.ts';
import { NEVER } from '../../postgres/clock/expiry.ts';
import { removeOld, type RetentionPass } from '../../postgres/retention-pass.ts';
import {
  type Dated,
  type Fragment,
  fragment,
  grantRows,
  IS_IN_FORCE,
  isoDates,
  joinFragments,
  onlyRow,
  type Sql,
} from '../../postgres/sql.ts';
import {
  type RecentRenewals,
  REFUSED_SHARE_MIN,
  RENEWALS_JUDGED_MS,
  RENEWALS_LATELY_MS,
} from '../health.ts';
import { DURATION_PLACES } from '../histogram.ts';
import type { ContendedResource, FaceCounts, FailingKey, StatsStep } from '../stats-types.ts';

/** The length of a bucket. */
export const STATS_BUCKET_MS = 10_000;
/** The longest window, a day, and an hour for the first of its steps to be whole. */
const STATS_KEPT_HOURS = 25;

/** What one controller has counted for a face since its last flush. */
export interface StatsCounts {
  readonly face: Face;
  readonly denials: number;
  readonly renewals: number;
  /** Histograms, see `histogram.ts`; null for none. */
  readonly waits: readonly number[] | null;
  readonly handovers: readonly number[] | null;
}

/** The bucket that an instant belongs to. */
export function bucketOf(instant: Fragment): Fragment {
  return fragment`date_bin(${STATS_BUCKET_MS} * interval '1 millisecond', ${instant}, timestamptz 'epoch')`;
}

/** The sum of two histograms; either may be null or have fewer places. */
function added(column: Fragment): Fragment {
  return fragment`
    case
      when excluded.${column} is null then t.${column}
      when t.${column} is null then excluded.${column}
      else (
        select array_agg(coalesce(u.before, 0) + coalesce(u.more, 0) order by u.place)
        from unnest(t.${column}, excluded.${column}) with ordinality as u (before, more, place)
      )
    end`;
}

/**
 * Adds what a controller has counted to the bucket of this moment, a row for each face.
 *
 * **Locks** those rows, in the order (bucket, face), as every statement that adds does. **Atomic
 * because** `set` adds to the row as it is after the lock; `excluded` holds only the controller's own
 * counts. **Index**: the primary key. One answer for each face.
 */
export async function addToBuckets(
  sql: Sql<'general'>,
  counts: readonly StatsCounts[],
): Promise<void> {
  await sql.$queryRaw<{ face: Face }[]>`
    insert into stats_bucket as t (
      bucket_at, face, denials, renewals, waits, handovers
    )
    select ${bucketOf(fragment`clock_timestamp()`)}, c.face, c.denials, c.renewals,
      c.waits::bigint[], c.handovers::bigint[]
    from unnest(
      ${counts.map((one) => one.face)}::text[],
      ${counts.map((one) => one.denials)}::bigint[],
      ${counts.map((one) => one.renewals)}::bigint[],
      ${counts.map((one) => arrayText(one.waits))}::text[],
      ${counts.map((one) => arrayText(one.handovers))}::text[]
    ) as c (face, denials, renewals, waits, handovers)
    order by 1, 2
    on conflict (bucket_at, face) do update set
      denials = t.denials + excluded.denials,
      renewals = t.renewals + excluded.renewals,
      waits = ${added(fragment`waits`)},
      handovers = ${added(fragment`handovers`)}
    returning t.face`;
}

/** An array as PostgreSQL writes it: a list of lists cannot be sent as one. */
function arrayText(numbers: readonly number[] | null): string | null {
  return numbers === null ? null : `{${numbers.join(',')}}`;
}

export interface StatsSeries {
  readonly asOf: number;
  /** Oldest first, without the steps in which nothing was counted. */
  readonly steps: readonly StatsStep[];
}

/** The sum of each place of a histogram. */
function summed(column: Fragment): Fragment {
  const places = Array.from(
    { length: DURATION_PLACES },
    (_, place) => fragment`coalesce(sum(b.${column}[${place + 1}::int]), 0)::float8`,
  );
  return fragment`array[${joinFragments(places)}]`;
}

/**
 * The last `stepCount` steps, of which the newest holds this moment; steps are multiples of their
 * length since the epoch, so that they stay where they are while time goes on. Locks nothing. Index:
 * the primary key, a range.
 */
export async function readSeries(
  sql: Sql<'guests'>,
  { stepMs, stepCount }: { readonly stepMs: number; readonly stepCount: number },
): Promise<StatsSeries> {
  const step = fragment`${stepMs} * interval '1 millisecond'`;
  const rows = await sql.$queryRaw<({ asOf: number } & { [K in keyof StatsStep]: unknown })[]>`
    with clock as materialized (
      select t.now, date_bin(${step}, t.now, timestamptz 'epoch') as newest
      from (select clock_timestamp() as now) t
    ),
    step as (
      select date_bin(${step}, b.bucket_at, timestamptz 'epoch') as at,
        sum(b.grants)::float8 as grants, sum(b.releases)::float8 as releases,
        sum(b.expiries)::float8 as expiries, sum(b.revocations)::float8 as revocations,
        sum(b.denials)::float8 as denials, sum(b.renewals)::float8 as renewals,
        sum(b.refused_renewals)::float8 as "refusedRenewals",
        ${summed(fragment`waits`)} as waits,
        ${summed(fragment`handovers`)} as handovers
      from stats_bucket b
      where b.bucket_at >= (select c.newest - ${(stepCount - 1) * stepMs} * interval '1 millisecond' from clock c)
        and b.bucket_at <= (select c.now from clock c)
      group by 1
    )
    select extract(epoch from c.now)::float8 * 1000 as "asOf",
      extract(epoch from s.at)::float8 * 1000 as at, s.grants, s.releases, s.expiries,
      s.revocations, s.denials, s.renewals, s."refusedRenewals", s.waits, s.handovers
    from clock c
    left join step s on true
    order by s.at`;
  return {
    asOf: rows[0]?.asOf ?? 0,
    steps: rows.filter((row) => row.at !== null).map(({ asOf: _asOf, ...row }) => row as StatsStep),
  };
}

/** Removes buckets that no window reaches any more. Index: the primary key. @returns how many. */
export function removeOldBuckets(sql: Sql<'general'>, pass: RetentionPass): Promise<number> {
  return removeOld(sql, pass, 'statistics', {
    old: fragment`
      select b.bucket_at, b.face from stats_bucket b
      where b.bucket_at < clock_timestamp() - ${STATS_KEPT_HOURS} * interval '1 hour'
      order by b.bucket_at, b.face`,
    deletes: fragment`
      gone as (
        delete from stats_bucket b
        using old
        where b.bucket_at = old.bucket_at and b.face = old.face
        returning b.face
      )`,
  });
}

// Counts events into the buckets of the time in which they happened, each event exactly once.
// One row says up to which event the buckets count. A controller locks it, adds the next events and moves
// the row, in one statement; others skip it meanwhile. So grants of services that use the database without
// a controller are counted like all others. Only events that are final are counted (see
// `FinalMark`): one with a smaller number cannot appear later and be left out. While an old
// transaction holds events back, the numbers are late, and right once it has ended.

/** A statement of this many takes some 50 ms; it is one range of the primary key. */
const EVENTS_PER_STATEMENT_MAX = 10_000;
/** Then it looks again which events are final. */
const STATEMENTS_PER_PASS_MAX = 10;
/** The second reading makes final what the first one noted, if no transaction is under way. */
const LOOKS_PER_PASS = 2;

export type EventRollup = ReturnType<typeof createEventRollup>;

export function createEventRollup(store: { readonly general: Sql<'general'> }) {
  let mark = new FinalMark();
  let epoch: number | undefined;
  let countedThroughId: bigint | undefined;

  async function look(): Promise<boolean> {
    const reading = await readEventMark(store.general, mark.notedId);
    // No controller has noted yet which database epoch this is.
    if (reading.epoch === null) return false;
    if (reading.epoch !== epoch) {
      mark = new FinalMark();
      countedThroughId = undefined;
      epoch = reading.epoch;
    }
    mark.observe(reading);
    return true;
  }

  return {
    /**
     * Counts final events that are not counted yet, or leaves them to the controller that is doing it.
     * Calls `onMore` if it has not come to the last final one.
     * @returns how many events this controller counted; others may have counted more.
     */
    async runOnce(
      signal?: AbortSignal,
      onMore?: () => void,
    ): Promise<{ readonly countedCount: number }> {
      for (let looks = 0; looks < LOOKS_PER_PASS; looks += 1) {
        if (!(await look())) return { countedCount: 0 };
      }
      let countedCount = 0;
      for (let statements = 0; ; statements += 1) {
        if (signal?.aborted === true) break;
        if (epoch === undefined || countedThroughId === mark.finalId) break;
        if (statements === STATEMENTS_PER_PASS_MAX) {
          onMore?.();
          break;
        }
        const counted = await countEvents(store.general, { upToId: mark.finalId, epoch });
        if (counted === undefined) break;
        countedCount += counted.eventCount;
        countedThroughId = counted.throughId;
      }
      return { countedCount };
    },
  };
}

/**
 * Adds the next events up to one that is final.
 *
 * **Locks** the cursor, or gives up when it is locked; then rows of buckets in the order (bucket,
 * face), as every statement that adds does. **Atomic because** it is one statement, which adds the
 * events and moves the cursor. A cursor that was moved since the snapshot is judged by its newest
 * version. **Index**: the primary key of events, a range. Events that are older than the buckets, and
 * those of Leasehold's own leases, are passed over. Undefined: another controller is doing it, or there
 * is nothing to count, or the database has become another one.
 */
async function countEvents(
  sql: Sql<'general'>,
  { upToId, epoch }: { readonly upToId: bigint; readonly epoch: number },
): Promise<{ eventCount: number; throughId: bigint } | undefined> {
  const [row] = await sql.$queryRaw<{ eventCount: number; throughId: string }[]>`
    with life as materialized (
      select ${EPOCH} from (select true) one left join database_epoch e on true limit 1
    ),
    place as materialized (
      select c.through_id
      from stats_cursor c
      where c.through_id < ${String(upToId)}::bigint
        and (select l.epoch from life l) = ${epoch}
      limit 1
      for update of c skip locked
    ),
    page as materialized (
      select v.id, v.at, v.face, v.namespace, v.kind
      from place p
      cross join lateral (
        select v.id, v.at, v.face, v.namespace, v.kind
        from lease_event v
        where v.id > p.through_id and v.id <= ${String(upToId)}::bigint
        order by v.id
        limit ${EVENTS_PER_STATEMENT_MAX}
      ) v
    ),
    counted as (
      select ${bucketOf(fragment`v.at`)} as bucket_at, v.face,
        count(*) filter (where v.kind in ('granted', 'taken_over')) as grants,
        count(*) filter (where v.kind in ('released', 'failed')) as releases,
        count(*) filter (where v.kind = 'expired') as expiries,
        count(*) filter (where v.kind = 'revoked') as revocations
      from page v
      where v.at >= clock_timestamp() - ${STATS_KEPT_HOURS} * interval '1 hour'
        and v.namespace <> ${RESERVED_NAMESPACE}
        and v.kind in ('granted', 'taken_over', 'released', 'failed', 'expired', 'revoked')
      group by 1, 2
    ),
    added as (
      insert into stats_bucket as t (bucket_at, face, grants, releases, expiries, revocations)
      select c.bucket_at, c.face, c.grants, c.releases, c.expiries, c.revocations
      from counted c
      order by c.bucket_at, c.face
      on conflict (bucket_at, face) do update set
        grants = t.grants + excluded.grants,
        releases = t.releases + excluded.releases,
        expiries = t.expiries + excluded.expiries,
        revocations = t.revocations + excluded.revocations
    ),
    reached as (
      select count(*)::int as event_count,
        case
          when count(*) < ${EVENTS_PER_STATEMENT_MAX} then ${String(upToId)}::bigint
          else max(v.id)
        end as through_id
      from page v
    )
    update stats_cursor c
    set through_id = r.through_id
    -- Not joined by its value: the row as the snapshot has it may be older than the one that is locked.
    from place p, reached r
    returning r.event_count as "eventCount", r.through_id::text as "throughId"`;
  if (row === undefined) return undefined;
  return { eventCount: row.eventCount, throughId: BigInt(row.throughId) };
}

/** How many resources are in which state at this moment, and which have the most waiters. */

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

const NAMED = { face: fragment`n.face`, namespace: fragment`n.namespace`, name: fragment`n.name` };

/**
 * The resources with the most waiters, of all faces; of several holders one is named. Lapsed tickets do not count: their waiters died.
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
      select l.holder from (${grantRows(NAMED, { where: IS_IN_FORCE, limit: 1 })}) l limit 1
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
