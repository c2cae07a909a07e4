import { onlyRow, type Sql } from '../../postgres/sql.ts';

/** The transaction that has been under way for longest, in the whole cluster, of those that write. */
export interface EventCulprit {
  /** Null for a prepared transaction, and where the database's user may not see it. */
  readonly pid: number | null;
  readonly applicationName: string | null;
  readonly database: string | null;
  /** The name of a prepared transaction. */
  readonly preparedAs: string | null;
  /** For how long it has been under way; null where the database's user may not see it. */
  readonly ageMs: number | null;
  /** What its session does, such as `idle in transaction`; null as {@link pid}. */
  readonly state: string | null;
  /** When its last statement began, as long ago; null as {@link pid}. */
  readonly queryAgeMs: number | null;
}

export interface EventLag {
  /** For how long the oldest event that is not final has waited; 0 when all are. */
  readonly lagMs: number;
  /** What it waits for; null when nothing is held back. */
  readonly culprit: EventCulprit | null;
}

/**
 * Which transaction events wait for: the oldest one that has a transaction id. Events that came after
 * it had begun wait for its end; the first of them is found by `lease_event_at_idx`. Locks nothing.
 * One row always.
 */
export async function readEventLag(sql: Sql<'general'>): Promise<EventLag> {
  const rows = await sql.$queryRaw<
    (EventCulprit & { isHeldBack: boolean; lagMs: number | null })[]
  >`
    with oldest as materialized (
      select pg_snapshot_xmin(pg_current_snapshot()) as xid,
        pg_snapshot_xmin(pg_current_snapshot()) < pg_snapshot_xmax(pg_current_snapshot()) as is_running
    ),
    culprit as (
      select a.pid, a.application_name, a.datname, null::text as gid, a.xact_start as begun_at,
        a.state, a.query_start
      from pg_stat_activity a, oldest o
      where o.is_running and a.backend_xid = o.xid::xid
      union all
      select null, null, p.database, p.gid, p.prepared, null, null
      from pg_prepared_xacts p, oldest o
      where o.is_running and p.transaction = o.xid::xid
      limit 1
    )
    select
      o.is_running as "isHeldBack",
      c.pid, c.application_name as "applicationName", c.datname as database, c.gid as "preparedAs",
      extract(epoch from clock_timestamp() - c.begun_at)::float8 * 1000 as "ageMs",
      c.state, extract(epoch from clock_timestamp() - c.query_start)::float8 * 1000 as "queryAgeMs",
      extract(epoch from clock_timestamp() - (
        select v.at from lease_event v where v.at >= c.begun_at order by v.at limit 1
      ))::float8 * 1000 as "lagMs"
    from oldest o left join culprit c on true`;
  const { isHeldBack, lagMs, ageMs, queryAgeMs, ...session } = onlyRow(rows);
  return {
    lagMs: wholeMs(lagMs ?? 0),
    culprit: isHeldBack
      ? { ...session, ageMs: wholeMsOr(ageMs), queryAgeMs: wholeMsOr(queryAgeMs) }
      : null,
  };
}

function wholeMsOr(ms: number | null): number | null {
  return ms === null ? null : wholeMs(ms);
}

/** Rounded; an instant of a moment ago may be later than the statement's own. */
function wholeMs(ms: number): number {
  return Math.max(0, Math.round(ms));
}
