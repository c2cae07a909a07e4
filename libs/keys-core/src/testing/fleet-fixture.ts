import { randomUUID } from 'node:crypto';
import { statusRank, type BackendStatus } from '../kernel/backends.ts';
import {
  openSession,
  recordHeartbeat,
  type SessionRef,
  type SessionRequest,
} from '../fleet/sql/drone-sessions.ts';
import type { PoolName, Sql } from '../postgres/sql.ts';

/** A drone that offers `room` and has just sent a heartbeat, unless `change` says otherwise. */
export async function aDrone(
  sql: Sql<'vital'>,
  change: Partial<SessionRequest> & { readonly heartbeatAgeMs?: number | null } = {},
): Promise<SessionRef> {
  const { heartbeatAgeMs = 0, ...asked } = change;
  const request: SessionRequest = {
    droneId: `drone-${randomUUID().slice(0, 8)}`,
    clockId: randomUUID(),
    datacenter: 'local',
    programs: [{ name: 'room', allowArgs: false, allowEnv: [] }],
    version: 'test',
    capacity: 10,
    ...asked,
  };
  const session = await openSession(sql, request);
  const ref = { droneId: request.droneId, clockId: request.clockId, session };
  if (heartbeatAgeMs !== null) {
    await recordHeartbeat(sql, { ...ref, localTimeMs: 1_000, load: {} });
    await sql.$queryRaw`
      update drone
      set heartbeat_at = heartbeat_at - ${heartbeatAgeMs}::float8 * interval '1 millisecond'
      where id = ${request.droneId}
      returning id`;
  }
  return ref;
}

/** A row of a backend, without the grant that a real one has. */
export async function aBackend(
  sql: Sql<PoolName>,
  of: {
    readonly droneId: string;
    readonly status?: BackendStatus;
    readonly namespace?: string;
    readonly name?: string;
    readonly ageMs?: number;
    readonly leaseId?: string;
  },
): Promise<{ backendId: string; leaseId: string }> {
  const backendId = `bk-${randomUUID().slice(0, 12)}`;
  const leaseId = of.leaseId ?? randomUUID();
  const status = of.status ?? 'ready';
  await sql.$queryRaw`
    insert into backend (
      id, drone_id, datacenter, clock_id, program, args, env, namespace, name, tag, lease_id, fencing_token,
      status, status_rank, created_at, status_at
    )
    select ${backendId}, ${of.droneId}, 'local', gen_random_uuid(), 'room', '[]', '{}', ${of.namespace ?? ''},
      ${of.name ?? 'demo'}, '', ${leaseId}::uuid, 1, ${status}, ${statusRank(status)}, t.at, t.at
    from (select clock_timestamp() - ${of.ageMs ?? 0}::float8 * interval '1 millisecond' as at) as t
    returning id`;
  return { backendId, leaseId };
}

/** An action in the outbox of a drone. @returns its id. */
export async function anAction(
  sql: Sql<PoolName>,
  of: {
    readonly droneId: string;
    readonly backendId: string;
    readonly kind?: 'spawn' | 'terminate';
  },
): Promise<string> {
  const rows = await sql.$queryRaw<{ id: string }[]>`
    insert into backend_action (backend_id, drone_id, kind, payload)
    values (${of.backendId}, ${of.droneId}, ${of.kind ?? 'spawn'},
      ${JSON.stringify({ kind: of.kind ?? 'spawn', backendId: of.backendId })}::jsonb)
    returning id::text`;
  return rows[0]?.id ?? '';
}
