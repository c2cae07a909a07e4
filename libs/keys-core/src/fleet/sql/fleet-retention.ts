import {
  ROWS_PER_STATEMENT_MAX,
  removeAll,
  type RetentionPass,
} from '../../postgres/retention-pass.ts';
import { onlyRow, type Sql } from '../../postgres/rows.ts';

/** Closed actions are of no use after this; they are kept a while for people who look into a fault. */
const CLOSED_ACTION_HOURS = 24;

/** How many rows a pass removed. */
export interface FleetRetention {
  readonly actions: number;
  readonly backends: number;
  readonly audit: number;
}

/**
 * Removes what nobody needs any more: actions that were acknowledged or cancelled a day ago,
 * terminated backends with their states and what was never acknowledged of
 * them, and the audit, after the retention time. Rows that another controller is removing are
 * skipped.
 */
export async function removeOldFleetRows(
  sql: Sql<'general'>,
  retentionDays: number,
  pass: RetentionPass,
): Promise<FleetRetention> {
  return {
    actions: await removeAll(pass, 'actions', () => removeOldActions(sql)),
    backends: await removeAll(pass, 'backends', () => removeOldBackends(sql, retentionDays)),
    audit: await removeAll(pass, 'audit', () => removeOldAudit(sql, retentionDays)),
  };
}

async function removeOldActions(sql: Sql<'general'>): Promise<number> {
  const rows = await sql.$queryRaw<{ removed: number }[]>`
    with old as (
      select a.id
      from backend_action a
      where coalesce(a.acked_at, a.cancelled_at)
        < clock_timestamp() - ${CLOSED_ACTION_HOURS}::int * interval '1 hour'
      order by a.id
      limit ${ROWS_PER_STATEMENT_MAX}
      for update skip locked
    ),
    gone as (delete from backend_action a using old where a.id = old.id returning a.id)
    select count(*)::int as removed from gone`;
  return onlyRow(rows).removed;
}

async function removeOldBackends(sql: Sql<'general'>, retentionDays: number): Promise<number> {
  const rows = await sql.$queryRaw<{ removed: number }[]>`
    with old as (
      select b.id
      from backend b
      where b.status = 'terminated'
        and b.status_at < clock_timestamp() - ${retentionDays}::int * interval '1 day'
      order by b.id
      limit ${ROWS_PER_STATEMENT_MAX}
      for update skip locked
    ),
    states as (delete from backend_state s using old where s.backend_id = old.id),
    actions as (delete from backend_action a using old where a.backend_id = old.id),
    gone as (delete from backend b using old where b.id = old.id returning b.id)
    select count(*)::int as removed from gone`;
  return onlyRow(rows).removed;
}

async function removeOldAudit(sql: Sql<'general'>, retentionDays: number): Promise<number> {
  const rows = await sql.$queryRaw<{ removed: number }[]>`
    with old as (
      select a.id
      from audit a
      where a.at < clock_timestamp() - ${retentionDays}::int * interval '1 day'
      order by a.id
      limit ${ROWS_PER_STATEMENT_MAX}
      for update skip locked
    ),
    gone as (delete from audit a using old where a.id = old.id returning a.id)
    select count(*)::int as removed from gone`;
  return onlyRow(rows).removed;
}
