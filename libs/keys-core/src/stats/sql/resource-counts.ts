/** How many resources are in which state at this moment, and which have the most waiters. */
import type { ContendedResource, FaceCounts, FailingKey } from '../stats-types.ts';
import {
  BACKEND_STATUSES,
  statusRank,
  type BackendStatus,
} from '../../kernel/fleet/backend-state.ts';
import { FACES, RESERVED_NAMESPACE, type Face } from '../../kernel/resource/resource.ts';
import { type Dated, isoDates, type Sql } from '../../postgres/sql.ts';

/** The states of a face's resources. */
export interface ResourceCounts extends FaceCounts {
  /** The age of the oldest expiry that is not recorded yet; 0 for none. */
  readonly oldestOverdueMs: number;
  /**
   * When the first of the expiring grants was blocked or revoked, as epoch milliseconds; null for none, and if
   * more than {@link EXPIRING_DATED_MAX} are expiring.
   */
  readonly expiringSince: number | null;
}

/** The events of so many grants are read within some milliseconds. */
const EXPIRING_DATED_MAX = 1_000;

const NOTHING: ResourceCounts = {
  held: 0,
  expiring: 0,
  overdue: 0,
  contended: 0,
  waiters: 0,
  oldestOverdueMs: 0,
  expiringSince: null,
};

/**
 * Counts every face, except Leasehold's own leases. Reads all leases once, because no index holds
 * phases: it would slow down every grant and release. On a busy machine 65 ms at 100,000 rows, 0.4 to
 * 0.7 s at 1,000,000: callers that ask often should keep the answer for a while. Phases are those of
 * `phaseOf`, judged at one moment for all rows. Locks nothing.
 */
export async function countResources(sql: Sql<'guests'>): Promise<Record<Face, ResourceCounts>> {
  const rows = await sql.$queryRaw<(ResourceCounts & { face: Face })[]>`
    with clock as materialized (select clock_timestamp() as now),
    phases as (
      select l.face,
        count(*) filter (
          where l.end_reason is null and l.released_at is null and l.renewable and l.expires_at > c.now
        ) as held,
        count(*) filter (
          where l.stops_by > c.now or (
            l.end_reason is null and l.released_at is null and not l.renewable and l.expires_at > c.now
          )
        ) as expiring,
        count(*) filter (
          where l.end_reason is null and l.released_at is null and l.expires_at <= c.now
        ) as overdue,
        min(l.expires_at) filter (
          where l.end_reason is null and l.released_at is null and l.expires_at <= c.now
        ) as oldest,
        (array_agg(l.lease_id) filter (
          where l.stops_by > c.now or (
            l.end_reason is null and l.released_at is null and not l.renewable and l.expires_at > c.now
          )
        )) as expiring_ids
      from lease l
      cross join clock c
      where l.namespace <> ${RESERVED_NAMESPACE}
      group by l.face
    ),
    lines as (
      select w.face, count(distinct (w.namespace, w.name)) as contended, count(*) as waiters
      from lease_waiter w
      cross join clock c
      where w.valid_until > c.now
      group by w.face
    )
    select face, coalesce(p.held, 0)::float8 as held, coalesce(p.expiring, 0)::float8 as expiring,
      coalesce(p.overdue, 0)::float8 as overdue, coalesce(n.contended, 0)::float8 as contended,
      coalesce(n.waiters, 0)::float8 as waiters,
      coalesce(extract(epoch from (select c.now from clock c) - p.oldest), 0)::float8 * 1000
        as "oldestOverdueMs",
      case when p.expiring <= ${EXPIRING_DATED_MAX}::int then (
        select extract(epoch from min(v.at))::float8 * 1000
        from unnest(p.expiring_ids) as x (lease_id)
        join lease_event v on v.lease_id = x.lease_id
        where v.kind in ('renewal_blocked', 'revoked')
      ) end as "expiringSince"
    from phases p
    full join lines n using (face)`;
  const found = new Map(rows.map(({ face, ...counts }) => [face, counts]));
  const counts = FACES.map((face) => [face, found.get(face) ?? NOTHING] as const);
  return Object.fromEntries(counts) as Record<Face, ResourceCounts>;
}

/**
 * How many leases and environments each principal holds. Reads all leases once, as
 * {@link countResources} does and for the same reason: callers that ask often should keep the answer.
 * Principals that hold none are left out. Locks nothing.
 */
export async function countHeldLeases(sql: Sql<'guests'>): Promise<Map<string, number>> {
  const rows = await sql.$queryRaw<{ principal: string; held: number }[]>`
    select l.principal, count(*)::float8 as held
    from lease l
    where l.face <> 'key' and l.end_reason is null and l.released_at is null
      and l.expires_at > (select clock_timestamp())
    group by l.principal`;
  return new Map(rows.map(({ principal, held }) => [principal, held]));
}

/**
 * The resources with the most waiters, of all faces. Lapsed tickets do not count: their waiters died.
 * All tickets are read, being few compared with leases; index: `lease_pkey` for the holders. Locks nothing.
 */
export function readMostWaitedFor(sql: Sql<'guests'>, limit: number): Promise<ContendedResource[]> {
  return sql.$queryRaw<ContendedResource[]>`
    with line as materialized (
      select w.face, w.namespace, w.name, count(*) as waiters, min(w.created_at) as since
      from lease_waiter w
      where w.valid_until > clock_timestamp()
      group by w.face, w.namespace, w.name
      order by count(*) desc, min(w.created_at), w.face, w.namespace, w.name
      limit ${limit}
    )
    select n.face, n.namespace, n.name, l.holder, n.waiters::float8 as waiters,
      greatest(0, extract(epoch from clock_timestamp() - n.since))::float8 * 1000 as "longestWaitMs"
    from line n
    left join lateral (
      select l.holder from lease l
      where l.face = n.face and l.namespace = n.namespace and l.name = n.name
        and lease_unexpired(l.released_at, l.end_reason, l.expires_at)
    ) l on true
    order by n.waiters desc, n.since, n.face, n.namespace, n.name`;
}

/** A failure that is older than this is not shown, whether or not somebody has connected since. */
const FAILING_MINUTES = 60;

/**
 * Keys whose newest backend has failed within the last hour, the latest failure first. Reads all rows of `key_failure`, of
 * which each key has one at most, and loses it with a clean end; index: `backend_key_idx`. Locks nothing.
 */
export async function readFailingKeys(sql: Sql<'guests'>, limit: number): Promise<FailingKey[]> {
  const rows = await sql.$queryRaw<Dated<FailingKey, 'since' | 'failedAt'>[]>`
    select k.namespace, k.name, k.failures, k.since, k.failed_at as "failedAt",
      k.backend_id as "backendId", b.reason, b.exit_code as "exitCode"
    from key_failure k
    join backend b on b.id = k.backend_id
    where k.failed_at > clock_timestamp() - ${FAILING_MINUTES}::int * interval '1 minute'
      and not exists (
        select from backend n
        where n.namespace = k.namespace and n.name = k.name and n.created_at > b.created_at
          and n.status = 'ready'
      )
    order by k.failed_at desc, k.namespace, k.name
    limit ${limit}`;
  return rows.map((row) => isoDates(row));
}

/**
 * Backends that have not terminated, by status. Terminated ones are kept for a month, so this reads
 * `backend_drone_id_status_rank_idx`, which has no text in it, or the table while it is small.
 */
export async function countLiveBackends(
  sql: Sql<'guests'>,
): Promise<Partial<Record<BackendStatus, number>>> {
  const rows = await sql.$queryRaw<{ rank: number; count: number }[]>`
    select b.status_rank as rank, count(*)::int as count
    from backend b
    where b.status_rank < ${statusRank('terminated')}
    group by b.status_rank
    order by b.status_rank`;
  const counts: Partial<Record<BackendStatus, number>> = {};
  for (const { rank, count } of rows) {
    const status = BACKEND_STATUSES[rank];
    if (status !== undefined) counts[status] = count;
  }
  return counts;
}
