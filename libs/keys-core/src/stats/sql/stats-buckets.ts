/**
 * What happened in each ten seconds of the database's clock, by face. Everything is added, never
 * set, so that any number of controllers may write at once; there are 27,000 rows at most, those of
 * 25 hours, whatever the load.
 */
import type { StatsPoint } from '../stats-types.ts';
import type { Face } from '../../kernel/resource/resource.ts';
import { removeOld, type RetentionPass } from '../../postgres/retention-pass.ts';
import { type Fragment, fragment, joinFragments, type Sql } from '../../postgres/sql.ts';
import { DURATION_PLACES } from '../histogram.ts';

/** The length of a bucket. */
export const STATS_BUCKET_MS = 10_000;
/** The longest window, a day, and an hour for the first of its steps to be whole. */
export const STATS_KEPT_HOURS = 25;

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

/** What happened in one step of time, over all faces. */
export interface StatsStep extends Omit<
  StatsPoint,
  'at' | `${'wait' | 'handover'}MsP${'50' | '99'}`
> {
  /** The step's beginning, as epoch milliseconds of the database. */
  readonly at: number;
  readonly waits: readonly number[];
  readonly handovers: readonly number[];
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
