import type { ClockBelief } from '../../postgres/clock/clock-watch.ts';
import { onlyRow, type Sql } from '../../postgres/sql.ts';
import { expiryBelieved } from '../../postgres/clock/expiry.ts';

/**
 * Records the backends of grants that have run out as `terminated`, reason `drone_lost`, and
 * withdraws their spawn if it was never acknowledged. Called in the transaction that ends the
 * grants, or after it, and never before: only the drone's own report frees a key early.
 * @returns the ids of the backends that it moved.
 */
export async function recordLostBackends(
  tx: Sql<'general' | 'transitions'>,
  leaseIds: readonly string[],
): Promise<string[]> {
  if (leaseIds.length === 0) return [];
  const rows = await tx.$queryRaw<{ id: string }[]>`
    with lost as (
      update backend b
      set status = 'terminated', status_rank = 7, reason = 'drone_lost', status_at = clock_timestamp()
      where b.lease_id = any (${leaseIds}::uuid[]) and b.status_rank < 7
      returning b.id
    ),
    state as (
      insert into backend_state (backend_id, status, reason)
      select x.id, 'terminated', 'drone_lost' from lost x order by x.id
    ),
    withdrawn as (
      update backend_action a
      set cancelled_at = clock_timestamp()
      from lost x
      where a.backend_id = x.id and a.kind = 'spawn' and a.acked_at is null and a.cancelled_at is null
    )
    select x.id from lost x`;
  return rows.map((row) => row.id);
}

/** How many backends one call of {@link recordOverdueBackends} reads. */
const BACKENDS_PER_CALL_MAX = 5_000;

/**
 * Records those backends as lost whose key was ended by something that could not record it: the
 * renewal that was refused as expired, or a forced revoke whose `stops_by` has passed. Their drone
 * should have reported them by itself; if it died instead, they would count as running forever.
 *
 * Goes through the backends in the order of their ids, a part in each call, so that a call costs the
 * same however many there are. Locks nothing but what it records: a grant that has been ended stays so.
 * @returns what it recorded, and after which id the next call continues.
 */
export async function recordOverdueBackends(
  sql: Sql<'general'>,
  afterId: string,
  belief: ClockBelief,
): Promise<{ lostBackendIds: string[]; nextAfterId: string }> {
  const rows = await sql.$queryRaw<{ leaseIds: string[]; lastId: string | null; count: number }[]>`
    with part as materialized (
      select b.id, b.lease_id, b.status_rank
      from backend b
      where b.id > ${afterId} collate "C"
      order by b.id
      limit ${BACKENDS_PER_CALL_MAX}
    )
    select
      (select max(p.id) from part p) as "lastId",
      (select count(*)::int from part) as count,
      array(
        select l.lease_id::text
        from part p
        join lease l on l.lease_id = p.lease_id
        where p.status_rank < 7 and l.end_reason is not null
          and greatest(l.expires_at, l.stops_by) <= clock_timestamp() and ${expiryBelieved(belief)}
      ) as "leaseIds"`;
  const { leaseIds, lastId, count } = onlyRow(rows);
  return {
    lostBackendIds: await recordLostBackends(sql, leaseIds),
    nextAfterId: count < BACKENDS_PER_CALL_MAX ? '' : (lastId ?? ''),
  };
}
