import type { ConnectResult } from '../key-types.ts';
import type { Sql } from '../../postgres/sql.ts';

/** What a caller of `connect` learns about a backend. */
type BackendAnswerRow = Omit<ConnectResult, 'key' | 'spawned'> & ConnectResult['key'];

/** Reads one backend. Index: its primary key. */
export async function readBackendAnswer(
  sql: Sql<'general'>,
  backendId: string,
): Promise<BackendAnswerRow | undefined> {
  const rows = await sql.$queryRaw<BackendAnswerRow[]>`
    select id as "backendId", drone_id as "droneId", datacenter, name, namespace, tag,
      lease_id as "leaseId", fencing_token::text as "fencingToken", status, address
    from backend
    where id = ${backendId}`;
  return rows[0];
}
