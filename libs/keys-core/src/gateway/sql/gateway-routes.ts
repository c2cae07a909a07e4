/** Who uses the backends of routes. */
import type { GatewayUse } from '../../kernel/gateway.ts';
import { arrayText, fragment, type Sql } from '../../postgres/sql.ts';

/** A gateway as it reports. */
interface ReportingGateway {
  readonly gatewayId: string;
  readonly version: string;
  /** Of all its routes: a call may have only a part of them. */
  readonly connections: number;
  readonly routes: number;
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
  { gatewayId, version, connections, routes }: ReportingGateway,
  uses: readonly Omit<GatewayUse, 'usedAgoMs'>[],
): Promise<void> {
  const requests = uses.reduce((sum, use) => sum + use.requests, 0);
  // Of the seconds since the last report: the older the last average is, the less it counts.
  const seconds = fragment`greatest(0.001, date_part('epoch', excluded.at - u.at))`;
  const weight = fragment`exp(-${seconds} / ${AVERAGE_SECONDS}::float8)`;
  await sql.$queryRaw`
    with seen as (
      insert into gateway as g (id, version, connections, routes, requests, seen_at)
      values (${gatewayId}, ${version}, ${connections}::bigint, ${routes}::bigint, ${requests}::bigint,
        clock_timestamp())
      on conflict (id) do update
      set version = excluded.version, connections = excluded.connections, routes = excluded.routes,
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
