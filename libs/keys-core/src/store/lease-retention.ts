import { onlyRow, type Sql } from './rows.ts';
import { dropOldAnswers } from './requests.ts';
import { dropForgotten } from './statements/reap.ts';
import { dropLapsedTickets } from './tickets.ts';

/** What one pass deletes of a kind at most, so that no pass holds locks for long. */
const ROWS_PER_PASS_MAX = 1_000;

/**
 * Removes what nobody needs any more of leases: resources that nobody has held for a day, answers to
 * idempotency keys after a day, tickets of waiters that died, and events after the retention time.
 * Bounded; run again and again.
 */
export async function removeOldLeaseRows(sql: Sql, retentionDays: number): Promise<void> {
  await dropForgotten(sql, ROWS_PER_PASS_MAX);
  await dropOldAnswers(sql, ROWS_PER_PASS_MAX);
  await dropLapsedTickets(sql);
  await removeOldEvents(sql, retentionDays);
}

/** Index: `lease_event_at_idx`. @returns how many were removed. */
export async function removeOldEvents(sql: Sql, retentionDays: number): Promise<number> {
  const rows = await sql.$queryRaw<{ removed: number }[]>`
    with old as (
      select v.id from lease_event v
      where v.at < clock_timestamp() - ${retentionDays}::int * interval '1 day'
      order by v.at
      limit ${ROWS_PER_PASS_MAX}
      for update skip locked
    ),
    gone as (delete from lease_event v using old where v.id = old.id returning v.id)
    select count(*)::int as removed from gone`;
  return onlyRow(rows).removed;
}
