import { LeaseError } from '../../kernel/errors.ts';
import { onlyRow, type Sql } from '../../postgres/sql.ts';
import type { RemovedDrone } from '../fleet-views.ts';
import { droneFacts } from './drones.ts';

/** The names of this many tokens are in an answer. */
const TOKENS_NAMED_MAX = 20;

/**
 * Forgets a drone that is not connected and of whose backends none may run. Its ended backends, the history and the
 * audit keep its id. Tokens stay as they are: one that is in force may register the id again, as a new drone.
 *
 * - **Locks** the drone's row, as draining does: a connect that has chosen the drone comes first, and is seen.
 * - What was never acknowledged is cancelled: nobody will.
 *
 * @throws {LeaseError} `drone.not_found`, `drone.in_use`.
 */
export async function removeDrone(
  tx: Sql<'general'>,
  droneId: string,
  heartbeatMs: number,
): Promise<RemovedDrone> {
  const locked = await tx.$queryRaw<{ id: string }[]>`
    select d.id from drone d where d.id = ${droneId} collate "C" for update`;
  if (locked.length === 0) throw new LeaseError('drone.not_found');
  // Read after the lock was had: a statement does not see what was committed while it waited.
  const { isConnected, backendCount } = onlyRow(
    await tx.$queryRaw<{ isConnected: boolean; backendCount: number }[]>`
      select ${droneFacts(heartbeatMs)} from drone d where d.id = ${droneId} collate "C"`,
  );
  if (isConnected || backendCount > 0) {
    throw new LeaseError('drone.in_use', problemOf(isConnected, backendCount), {
      details: { isConnected, backendCount },
    });
  }
  const [row] = await tx.$queryRaw<{ tokens: RemovedDrone['tokens'] }[]>`
    with removed as (
      delete from drone d where d.id = ${droneId} collate "C" returning d.id
    ),
    cancelled as (
      update backend_action a
      set cancelled_at = clock_timestamp()
      from removed r
      where a.drone_id = r.id and a.acked_at is null and a.cancelled_at is null
    ),
    unasked as (
      delete from drone_question q using removed r where q.drone_id = r.id
    )
    select coalesce(jsonb_agg(jsonb_build_object('tokenId', t.id, 'name', t.name)), '[]') as tokens
    from (
      select t.id, t.name
      from api_token t
      join removed r on r.id = t.drone_id
      where t.revoked_at is null and (t.expires_at is null or t.expires_at > clock_timestamp())
      order by t.created_at, t.id
      limit ${TOKENS_NAMED_MAX}
    ) t`;
  return { tokens: row?.tokens ?? [] };
}

function problemOf(isConnected: boolean, backendCount: number): string {
  const backends = `${String(backendCount)} of its backends may still run`;
  if (!isConnected) return `${backends}: they end at the latest when their keys expire.`;
  return `The drone is connected${backendCount > 0 ? `, and ${backends}` : ''}: stop it first.`;
}
