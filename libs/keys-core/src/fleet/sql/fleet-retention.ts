import { removeOld, type RetentionPass } from '../../postgres/retention-pass.ts';
import { fragment, type Sql } from '../../postgres/sql.ts';

/** Closed actions are of no use after this; they are kept a while for people who look into a fault. */
const CLOSED_ACTION_HOURS = 24;

/**
 * Removes what nobody needs any more: actions that were acknowledged or cancelled a day ago,
 * terminated backends with their states and what was never acknowledged of them, and the audit, after the
 * retention time. @returns how many rows of each.
 *
 * Index: `backend_action_closed_at_idx`, `backend_terminated_at_idx`, `audit_at_idx`.
 */
export async function removeOldFleetRows(
  sql: Sql<'general'>,
  retentionDays: number,
  pass: RetentionPass,
): Promise<{ actions: number; backends: number; audit: number }> {
  const retention = fragment`${retentionDays}::int * interval '1 day'`;
  const actions = await removeOld(sql, pass, 'actions', {
    old: fragment`
      select a.id
      from backend_action a
      where coalesce(a.acked_at, a.cancelled_at)
        < clock_timestamp() - ${CLOSED_ACTION_HOURS}::int * interval '1 hour'
      order by coalesce(a.acked_at, a.cancelled_at)`,
    deletes: fragment`gone as (delete from backend_action a using old where a.id = old.id returning a.id)`,
  });
  const backends = await removeOld(sql, pass, 'backends', {
    old: fragment`
      select b.id, b.namespace
      from backend b
      where b.status = 'terminated' and b.status_at < clock_timestamp() - ${retention}
      order by b.status_at`,
    deletes: fragment`
      names as (
        delete from search_name n using old
        where n.kind = 'backend' and n.namespace = old.namespace and n.name = old.id
      ),
      states as (delete from backend_state s using old where s.backend_id = old.id),
      actions as (delete from backend_action a using old where a.backend_id = old.id),
      gone as (delete from backend b using old where b.id = old.id returning b.id)`,
  });
  // Failures of a row that nobody goes on with.
  await sql.$queryRaw`
    delete from key_failure where failed_at < clock_timestamp() - interval '1 day' returning name`;
  const audit = await removeOld(sql, pass, 'audit', {
    old: fragment`select a.id from audit a where a.at < clock_timestamp() - ${retention} order by a.at`,
    deletes: fragment`gone as (delete from audit a using old where a.id = old.id returning a.id)`,
  });
  return { actions, backends, audit };
}
