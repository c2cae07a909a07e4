/**
 * Sessions of drones. A drone has one session at a time, and its number grows: everything that a
 * drone sends carries the number, and the newest one counts. So a half-open connection to another
 * controller, a second agent with the same id, or a message that was delayed past a restart can
 * change nothing.
 */
import { LeaseError } from '../../kernel/errors.ts';
import { fragment, onlyRow, type Sql } from '../../postgres/sql.ts';
import type { DroneIsolation } from '../../kernel/drones.ts';
import type { OfferedProgram } from '../fleet-views.ts';

export interface SessionRequest {
  readonly droneId: string;
  readonly clockId: string;
  readonly datacenter: string;
  readonly programs: readonly OfferedProgram[];
  readonly version: string;
  readonly capacity: number;
  /** On the drone's machine: where its backends' output is. */
  readonly logFolder?: string | undefined;
  readonly isolation?: DroneIsolation | undefined;
}

/** Names one session; everything that a drone sends carries it. */
export interface SessionRef {
  readonly droneId: string;
  readonly clockId: string;
  readonly session: number;
}

/**
 * Opens the next session of a drone, registering the drone if it is new, and returns its number.
 *
 * A new `clockId` voids the stored heartbeat: a reading of another clock says nothing about this
 * one. `lost_at` is cleared, because the drone is evidently there; `draining` is an
 * operator's decision and stays. The statement locks the drone's row, so numbers never repeat.
 */
export async function openSession(sql: Sql<'vital'>, request: SessionRequest): Promise<number> {
  const rows = await sql.$queryRaw<{ session: number }[]>`
    insert into drone as d (id, datacenter, clock_id, session, version, programs, capacity, log_folder,
      isolation, registered_at)
    values (
      ${request.droneId}, ${request.datacenter}, ${request.clockId}::uuid, 1, ${request.version},
      ${JSON.stringify(request.programs)}::jsonb, ${request.capacity},
      ${request.logFolder ?? null},
      ${request.isolation === undefined ? null : JSON.stringify(request.isolation)}::jsonb,
      clock_timestamp()
    )
    on conflict (id) do update
    set datacenter = excluded.datacenter,
      clock_id = excluded.clock_id,
      session = d.session + 1,
      version = excluded.version,
      programs = excluded.programs,
      capacity = excluded.capacity,
      log_folder = excluded.log_folder,
      isolation = excluded.isolation,
      registered_at = clock_timestamp(),
      lost_at = null,
      local_time_ms = case when d.clock_id = excluded.clock_id then d.local_time_ms end,
      heartbeat_at = case when d.clock_id = excluded.clock_id then d.heartbeat_at end
    returning d.session::float8 as session`;
  return onlyRow(rows).session;
}

/**
 * Records that a drone stops, for its present session alone: with the next one it is back, whichever version
 * of the controller opens that. Waits for every connect that has already chosen the drone, as `setDraining` does:
 * so no backend is given to it after this statement has answered.
 *
 * @throws {LeaseError} `session.superseded` when no row matched.
 */
export async function recordGoodbye(
  sql: Sql<'vital'>,
  { droneId, session, clockId }: SessionRef,
): Promise<void> {
  const rows = await sql.$queryRaw<{ id: string }[]>`
    with locked as materialized (
      select d.id
      from drone d
      where d.id = ${droneId} collate "C"
        and d.session = ${session}::bigint
        and d.clock_id = ${clockId}::uuid
      for update
    )
    update drone d
    set stopped_session = d.session,
      stopped_at = case when d.stopped_session = d.session then d.stopped_at else clock_timestamp() end
    from locked k
    where d.id = k.id
    returning d.id`;
  if (rows.length === 0) throw new LeaseError('session.superseded');
}

/** What a drone sends every few seconds. */
export interface Heartbeat extends SessionRef {
  readonly localTimeMs: number;
  readonly load: unknown;
  /** What its backends use, when it has looked again. */
  readonly usage?:
    | readonly {
        readonly backendId: string;
        readonly memoryBytes: number;
        readonly cpus?: number | undefined;
      }[]
    | undefined;
}

/**
 * Stores a reading of the drone's clock. Only readings of the newest session and its clock count: a
 * heartbeat of an older one could carry a reading of another clock. Stays HOT: no index changes. What backends use is
 * not written again by a heartbeat without it.
 *
 * Returns whether the drone is given no more backends.
 *
 * @throws {LeaseError} `session.superseded` when no row matched.
 */
export async function recordHeartbeat(
  sql: Sql<'vital'>,
  { usage, ...heartbeat }: Heartbeat,
): Promise<{ draining: boolean }> {
  const used =
    usage === undefined
      ? fragment``
      : fragment`, usage = ${usageText(usage)}::jsonb, usage_at = clock_timestamp()`;
  const [row] = await sql.$queryRaw<{ draining: boolean }[]>`
    update drone
    set local_time_ms = ${heartbeat.localTimeMs}::float8,
      heartbeat_at = clock_timestamp(),
      load = ${JSON.stringify(heartbeat.load)}::jsonb${used}
    where id = ${heartbeat.droneId} collate "C"
      and session = ${heartbeat.session}::bigint
      and clock_id = ${heartbeat.clockId}::uuid
    returning draining`;
  if (row === undefined) throw new LeaseError('session.superseded');
  return row;
}

function usageText(usage: NonNullable<Heartbeat['usage']>): string {
  const entries = usage.map(({ backendId, memoryBytes, cpus }) => [
    backendId,
    [memoryBytes, cpus ?? null],
  ]);
  return JSON.stringify(Object.fromEntries(entries));
}
