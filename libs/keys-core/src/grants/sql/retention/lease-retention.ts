import {
  ROWS_PER_STATEMENT_MAX,
  removeAll,
  removeOld,
  type RetentionPass,
} from '../../../postgres/retention-pass.ts';
import { fragment, type Sql } from '../../../postgres/sql.ts';
import { dropOldRequests } from '../../idempotency/sql/requests.ts';
import { dropLapsedTickets } from '../../line/sql/tickets.ts';

/** How long the callback of an expired lease waits to be called. */
export const CALLBACK_KEPT_MS = 24 * 60 * 60 * 1_000;

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
  // Index: `lease_event_at_idx`.
  await removeOld(sql, pass, 'events', {
    old: fragment`
      select v.id from lease_event v
      where v.at < clock_timestamp() - ${retentionDays}::int * interval '1 day'
      order by v.at`,
    deletes: fragment`gone as (delete from lease_event v using old where v.id = old.id returning v.id)`,
  });
  // Those that nobody has claimed in time: no use case reaps their namespace, or each call has failed.
  await removeOld(sql, pass, 'callbacks', {
    old: fragment`
      select p.lease_id from lease_reap p
      where p.expired_at < clock_timestamp() - ${CALLBACK_KEPT_MS}::float8 * interval '1 millisecond'`,
    deletes: fragment`
      gone as (delete from lease_reap p using old o where p.lease_id = o.lease_id returning p.lease_id)`,
  });
  await removeAll(pass, 'tickets', () => dropLapsedTickets(sql, ROWS_PER_STATEMENT_MAX));
}
