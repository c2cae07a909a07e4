import type { Sql } from '../../postgres/rows.ts';

/** What a caller of `connect` learns about a backend. */
export interface BackendAnswerRow {
  readonly backendId: string;
  readonly droneId: string;
  readonly datacenter: string;
  readonly name: string;
  readonly namespace: string;
  readonly tag: string;
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly status: string;
  readonly address: string | null;
}

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
