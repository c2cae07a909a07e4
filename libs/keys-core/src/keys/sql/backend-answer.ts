import type { BackendEnd } from '../../kernel/fleet/backend-end.ts';
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

/** How a backend ended, and what it wrote last. */
export interface BackendEndRow extends BackendEnd {
  readonly output: string | null;
  /** From the start of its program; null if that was never started. */
  readonly livedMs: number | null;
}

/** Reads how a backend ended. Index: its primary key, and that of its states. */
export async function readBackendEnd(
  sql: Sql<'general'>,
  backendId: string,
): Promise<BackendEndRow | undefined> {
  const rows = await sql.$queryRaw<BackendEndRow[]>`
    select b.reason, b.exit_code as "exitCode", b.output, ended.detail,
      round(extract(epoch from b.status_at - started.at) * 1000)::float8 as "livedMs"
    from backend b
    left join lateral (
      select s.detail from backend_state s
      where s.backend_id = b.id and s.status = 'terminated'
      order by s.id limit 1
    ) as ended on true
    left join lateral (
      select s.at from backend_state s
      where s.backend_id = b.id and s.status = 'waiting'
      order by s.id limit 1
    ) as started on true
    where b.id = ${backendId}`;
  return rows[0];
}
