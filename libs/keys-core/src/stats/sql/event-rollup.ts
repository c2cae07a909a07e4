/**
 * Counts events into the buckets of the time in which they happened, each event exactly once.
 *
 * One row says up to which event the buckets count. A controller locks it, adds the next events and moves
 * the row, in one statement; others skip it meanwhile. So grants of services that use the database without
 * a controller are counted like all others. Only events that are final are counted (see
 * `event-finality.ts`): one with a smaller number cannot appear later and be left out. While an old
 * transaction holds events back, the numbers are late, and right once it has ended.
 */
import { RESERVED_NAMESPACE } from '../../kernel/resource/resource.ts';
import { EPOCH, FinalMark, readEventMark } from '../../events/index.ts';
import { fragment, type Sql } from '../../postgres/sql.ts';
import { STATS_KEPT_HOURS, bucketOf } from './stats-buckets.ts';

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
