import type { Sql } from './rows.ts';

/**
 * Records the backends of grants that have run out as `terminated`, reason `drone_lost`, and
 * withdraws their spawn if it was never acknowledged. Called in the transaction that ended the
 * grants, and never before: nobody's word but the drone's frees a key early.
 * @returns the ids of the backends that it moved.
 */
export async function recordLostBackends(tx: Sql, leaseIds: readonly string[]): Promise<string[]> {
  if (leaseIds.length === 0) return [];
  const rows = await tx.$queryRaw<{ id: string }[]>`
    with lost as (
      update backend b
      set status = 'terminated', status_rank = 7, reason = 'drone_lost', status_at = clock_timestamp()
      where b.lease_id = any (${leaseIds as string[]}::uuid[]) and b.status_rank < 7
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
