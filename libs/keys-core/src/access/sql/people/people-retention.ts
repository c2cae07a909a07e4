import {
  ROWS_PER_STATEMENT_MAX,
  removeAll,
  type RetentionPass,
} from '../../../postgres/retention-pass.ts';
import { onlyRow, type Sql } from '../../../postgres/rows.ts';
import { SESSION_IDLE_DAYS } from './person-sessions.ts';
import { FAILURES_KEPT_MINUTES } from '../sign-in/sign-in-failures.ts';

/**
 * Removes what nobody needs any more of people: sessions that have ended, sign-in failures that no
 * longer count, and sign-ins that were never completed. Rows that another controller is removing
 * are skipped.
 */
export async function removeOldPeopleRows(sql: Sql<'general'>, pass: RetentionPass): Promise<void> {
  await removeAll(pass, 'sessions', () => removeEndedSessions(sql));
  await removeAll(pass, 'sign-in failures', () => removeOldFailures(sql));
  await removeAll(pass, 'verifications', () => removeOldVerifications(sql));
}

/** Index: `person_session_seen_at_idx`; a session that ended by its age is found when it is idle, too. */
async function removeEndedSessions(sql: Sql<'general'>): Promise<number> {
  const rows = await sql.$queryRaw<{ removed: number }[]>`
    with old as (
      select s.id from person_session s
      where s.seen_at < clock_timestamp() - ${SESSION_IDLE_DAYS}::int * interval '1 day'
      order by s.seen_at
      limit ${ROWS_PER_STATEMENT_MAX}
      for update skip locked
    ),
    gone as (delete from person_session s using old where s.id = old.id returning s.id)
    select count(*)::int as removed from gone`;
  return onlyRow(rows).removed;
}

/** A lock-out is shorter than failures are kept. Index: `sign_in_failure_failed_at_idx`. */
async function removeOldFailures(sql: Sql<'general'>): Promise<number> {
  const rows = await sql.$queryRaw<{ removed: number }[]>`
    with old as (
      select f.email_hash, f.source from sign_in_failure f
      where f.failed_at < clock_timestamp() - ${FAILURES_KEPT_MINUTES}::int * interval '1 minute'
      order by f.failed_at
      limit ${ROWS_PER_STATEMENT_MAX}
      for update skip locked
    ),
    gone as (
      delete from sign_in_failure f
      using old
      where f.email_hash = old.email_hash and f.source = old.source
      returning f.email_hash
    )
    select count(*)::int as removed from gone`;
  return onlyRow(rows).removed;
}

/** Index: `person_verification_expires_at_idx`. */
async function removeOldVerifications(sql: Sql<'general'>): Promise<number> {
  const rows = await sql.$queryRaw<{ removed: number }[]>`
    with old as (
      select v.id from person_verification v
      where v.expires_at < clock_timestamp()
      order by v.expires_at
      limit ${ROWS_PER_STATEMENT_MAX}
      for update skip locked
    ),
    gone as (delete from person_verification v using old where v.id = old.id returning v.id)
    select count(*)::int as removed from gone`;
  return onlyRow(rows).removed;
}
