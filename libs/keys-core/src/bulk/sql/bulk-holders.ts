/** The holders of a bulk action's items: those that hold now, and those that have not stopped yet. */
import type { GrantRef } from '../../kernel/lease.ts';
import { isoOf, type Sql } from '../../postgres/sql.ts';
import type { BulkPreview, BulkProgress } from '../bulk-types.ts';

export const NONE_STOPPING: Pick<BulkProgress, 'stopping' | 'stopsBy'> = {
  stopping: 0,
  stopsBy: null,
};

/**
 * Which items are in force, and how long their holders may go on after a revoke: to the hard rung, which a
 * renewal just before the revoke moves to its full distance. Index: `lease_lease_id_key`.
 */
export async function readPreview(
  sql: Sql<'reads'>,
  items: readonly GrantRef[],
): Promise<BulkPreview> {
  const rows = await sql.$queryRaw<{ leaseId: string; stopsWithinMs: number }[]>`
    select l.lease_id as "leaseId",
      case
        when l.renewable then l.hard_after_ms
        else greatest(0, l.hard_after_ms - l.ttl_ms
          + extract(epoch from l.expires_at - clock_timestamp()) * 1000)
      end::float8 as "stopsWithinMs"
    from unnest(
      ${items.map(({ leaseId }) => leaseId)}::uuid[],
      ${items.map(({ fencingToken }) => fencingToken)}::bigint[]
    ) as i (lease_id, fencing_token)
    join lease l on l.lease_id = i.lease_id and l.fencing_token = i.fencing_token
    where lease_unexpired(l.released_at, l.end_reason, l.expires_at)`;
  return {
    held: rows.map(({ leaseId }) => leaseId),
    stopsWithinMs: Math.round(Math.max(0, ...rows.map(({ stopsWithinMs }) => stopsWithinMs))),
  };
}

/**
 * Of the items that a bulk action has revoked, how many have a holder that may still go on:
 *
 * - the grant itself is in force: revoked gracefully, neither released nor expired;
 * - a key that was ended by force is held back: its drone has not reported the backend as gone;
 * - a lease or an environment was ended by force: its holder goes on until its own deadline at the latest,
 *   which is in the event, because the row may be another grant's by now.
 *
 * Index: the primary key of items, and for each `lease_lease_id_key`, `lease_event_lease_id_idx`.
 */
export async function readStopping(
  sql: Sql<'reads'>,
  bulkId: string,
): Promise<Pick<BulkProgress, 'stopping' | 'stopsBy'>> {
  const [row] = await sql.$queryRaw<{ stopping: number; stopsBy: number | null }[]>`
    select count(*)::int as stopping, extract(epoch from max(s.until))::float8 * 1000 as "stopsBy"
    from bulk b
    join bulk_item i on i.bulk_id = b.id and i.done_at is not null and i.code is null
    cross join lateral (
      select coalesce(l.stops_by, l.expires_at) as until
      from lease l
      where l.lease_id = i.lease_id and (
        lease_unexpired(l.released_at, l.end_reason, l.expires_at) or l.stops_by > clock_timestamp()
      )
      union all
      select (e.detail ->> 'stopsBy')::timestamptz
      from lease_event e
      where b.mode = 'force' and e.lease_id = i.lease_id and e.kind = 'revoked' and e.face <> 'key'
        and (e.detail ->> 'stopsBy')::timestamptz > clock_timestamp()
    ) s
    where b.id = ${bulkId}::uuid`;
  if (row?.stopsBy == null) return NONE_STOPPING;
  return { stopping: row.stopping, stopsBy: isoOf(row.stopsBy) };
}
