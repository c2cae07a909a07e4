import type { LeaseRow } from '../kernel/lease.ts';
import { C, LEASE_COLUMNS, type Sql } from './rows.ts';

/** A key with its backend and its drone's liveness, from one read and one moment. */
export interface KeyStateRow extends LeaseRow {
  readonly backendId: string | null;
  readonly backendStatus: string | null;
  readonly address: string | null;
  readonly droneId: string | null;
  readonly isDroneReachable: boolean;
}

/**
 * Reads one key. A drone is reachable while its newest heartbeat is younger than three intervals
 * and no operator has called it lost. Index: the primary keys and `backend_lease_id_key`.
 */
export async function readKeyState(
  sql: Sql,
  key: { namespace: string; name: string },
  heartbeatMs: number,
): Promise<KeyStateRow | undefined> {
  const rows = await sql.$queryRaw<KeyStateRow[]>`
    select ${LEASE_COLUMNS},
      b.id as "backendId", b.status as "backendStatus", b.address, b.drone_id as "droneId",
      coalesce(
        d.lost_at is null
          and d.heartbeat_at > clock_timestamp() - ${3 * heartbeatMs} * interval '1 millisecond',
        false
      ) as "isDroneReachable"
    from lease l
    left join backend b on b.lease_id = l.lease_id
    left join drone d on d.id = b.drone_id
    where l.face = 'key' and l.namespace = ${key.namespace} ${C} and l.name = ${key.name} ${C}`;
  return rows[0];
}
