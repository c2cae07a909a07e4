import {
  ROWS_PER_STATEMENT_MAX,
  removeAll,
  type RetentionPass,
} from '../../../postgres/retention-pass.ts';
import { onlyRow, type Sql } from '../../../postgres/rows.ts';
import { dropOldRequests } from '../../idempotency/sql/requests.ts';
import { dropUnclaimedReapRows } from '../reap-stale.ts';
import { dropLapsedTickets } from '../../line/sql/tickets.ts';

/**
 * Removes lease data that nobody needs any more: records of idempotency keys and callbacks that nobody
 * claimed after a day, tickets of waiters that died, and events after the retention time. Rows of free
 * resources have a job of their own, see `free-rows.ts`.
 */
export async function removeOldLeaseRows(
  sql: Sql<'general'>,
  retentionDays: number,
  pass: RetentionPass,
): Promise<void> {
  await removeAll(pass, 'answers', () => dropOldRequests(sql, ROWS_PER_STATEMENT_MAX));
  await removeAll(pass, 'events', () => removeOldEvents(sql, retentionDays));
  await removeAll(pass, 'callbacks', () => dropUnclaimedReapRows(sql, ROWS_PER_STATEMENT_MAX));
  // One statement removes all of them.
  await removeAll(pass, 'tickets', () => dropLapsedTickets(sql).then(() => 0));
}

/** Index: `lease_event_at_idx`. @returns how many were removed. */
async function removeOldEvents(sql: Sql<'general'>, retentionDays: number): Promise<number> {
  const rows = await sql.$queryRaw<{ removed: number }[]>`
    with old as (
      select v.id from lease_event v
      where v.at < clock_timestamp() - ${retentionDays}::int * interval '1 day'
      order by v.at
      limit ${ROWS_PER_STATEMENT_MAX}
      for update skip locked
    ),
    gone as (delete from lease_event v using old where v.id = old.id returning v.id)
    select count(*)::int as removed from gone`;
  return onlyRow(rows).removed;
}
