/**
 * What happened in each ten seconds of the database's clock, by face. Everything is added, never
 * set, so that any number of controllers may write at once; there are 27,000 rows at most, those of
 * 25 hours, whatever the load.
 */
import { EPOCH, FinalMark, readEventMark } from '../../events/index.ts';
import { type Face, RESERVED_NAMESPACE } from '../../kernel/resource.ts';
import { removeOld, type RetentionPass } from '../../postgres/retention-pass.ts';
import { type Fragment, fragment, joinFragments, type Sql } from '../../postgres/sql.ts';
import { DURATION_PLACES } from '../histogram.ts';
import type { StatsPoint } from '../stats-types.ts';

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
