/** Where requests go, for how long that is sure, and who uses it. */
import type { Ladder } from '../../kernel/ladder.ts';
import { arrayText, fragment, isFound, type Sql } from '../../postgres/sql.ts';

/** A backend to which somebody may be sent, at the moment that its grant was judged. */
export interface RouteRow {
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly backendId: string;
  readonly droneId: string;
  readonly program: string;
  readonly address: string;
  readonly ladder: Ladder;
  /** Until the grant expires. */
  readonly remainingMs: number;
  /** The database's clock, in epoch milliseconds. */
  readonly asOf: number;
}

/**
 * Those of the grants to whose backends somebody may be sent: in force, ready, and not asked to stop. Each once. Index:
 * `backend_lease_id_key` and `lease_lease_id_key`, one probe for each, however large the tables are.
 */
export async function readRoutes(
  sql: Sql<'vital'>,
  leaseIds: readonly string[],
): Promise<RouteRow[]> {
  const rows = await sql.$queryRaw<(RouteRow & Ladder)[]>`
    select w.lease_id as "leaseId", l.fencing_token::text as "fencingToken", b.id as "backendId",
      b.drone_id as "droneId", b.program, b.address, l.ttl_ms as "ttlMs",
      l.renew_after_ms as "renewAfterMs", l.soft_after_ms as "softAfterMs", l.hard_after_ms as "hardAfterMs",
      date_part('epoch', l.expires_at - clock_timestamp()) * 1000 as "remainingMs",
      date_part('epoch', clock_timestamp()) * 1000 as "asOf"
    from unnest(${arrayText(leaseIds)}::uuid[]) as w (lease_id)
    cross join lateral (select b.* from backend b where b.lease_id = w.lease_id limit 1) b
    cross join lateral (select l.* from lease l where l.lease_id = w.lease_id limit 1) l
    where b.status = 'ready' and b.address is not null
      and lease_unexpired(l.released_at, l.end_reason, l.expires_at)
      and not ${isFound(fragment`
        select true from backend_action a
        where a.backend_id = b.id and a.kind = 'terminate' and a.cancelled_at is null`)}`;
  return rows.map(({ ttlMs, renewAfterMs, softAfterMs, hardAfterMs, ...row }) => ({
    ...row,
    ladder: { ttlMs, renewAfterMs, softAfterMs, hardAfterMs },
  }));
}

/** What a gateway has reported of a grant. */
export interface UseRow {
  readonly leaseId: string;
  readonly connections: number;
  readonly users: number;
  readonly requests: number;
}

/** A use in which nothing changes is written again after this long. */
const UNCHANGED_WRITTEN_SECONDS = 5;
/** Of the average of requests per second. */
const AVERAGE_SECONDS = 10;

/**
 * Keeps what a gateway reports, for people to look at: the gateway itself, and the uses of grants, each of which must
 * be there once. Uses in which nothing changes are mostly not written. One statement. Index: the primary keys.
 */
export async function recordUses(
  sql: Sql<'vital'>,
  { gatewayId, version }: { readonly gatewayId: string; readonly version: string },
  uses: readonly UseRow[],
): Promise<void> {
  const sumOf = (name: 'connections' | 'requests'): number =>
    uses.reduce((sum, use) => sum + use[name], 0);
  // Of the seconds since the last report: the older the last average is, the less it counts.
  const seconds = fragment`greatest(0.001, date_part('epoch', excluded.at - u.at))`;
  const weight = fragment`exp(-${seconds} / ${AVERAGE_SECONDS}::float8)`;
  await sql.$queryRaw`
    with seen as (
      insert into gateway as g (id, version, connections, requests, seen_at)
      values (${gatewayId}, ${version}, ${sumOf('connections')}::bigint, ${sumOf('requests')}::bigint,
        clock_timestamp())
      on conflict (id) do update
      set version = excluded.version, connections = excluded.connections,
        requests = g.requests + excluded.requests, seen_at = excluded.seen_at
      returning g.id, g.seen_at
    )
    insert into gateway_use as u (lease_id, gateway_id, connections, users, requests, requests_per_second, at)
    select w.lease_id, seen.id, w.connections, w.users, w.requests, 0, seen.seen_at
    from seen, unnest(
      ${arrayText(uses.map((use) => use.leaseId))}::uuid[],
      ${arrayText(uses.map((use) => use.connections))}::bigint[],
      ${arrayText(uses.map((use) => use.users))}::bigint[],
      ${arrayText(uses.map((use) => use.requests))}::bigint[]
    ) as w (lease_id, connections, users, requests)
    -- Two calls of one gateway at once lock rows in the same order.
    order by w.lease_id
    on conflict (lease_id, gateway_id) do update
    set connections = excluded.connections, users = excluded.users,
      requests = u.requests + excluded.requests, at = excluded.at,
      requests_per_second = u.requests_per_second * ${weight}
        + excluded.requests / ${seconds} * (1 - ${weight})
    where excluded.requests > 0 or u.connections <> excluded.connections or u.users <> excluded.users
      or u.at < excluded.at - ${UNCHANGED_WRITTEN_SECONDS}::int * interval '1 second'`;
}
