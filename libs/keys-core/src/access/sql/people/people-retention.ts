import { removeOld, type RetentionPass } from '../../../postgres/retention-pass.ts';
import { fragment, type Sql } from '../../../postgres/sql.ts';
import { SESSION_IDLE_DAYS } from './person-sessions.ts';
import { FAILURES_KEPT_MINUTES } from '../sign-in/sign-in-failures.ts';

/**
 * Removes what nobody needs any more of people: sessions that have ended, sign-in failures that no
 * longer count, and sign-ins that were never completed.
 */
export async function removeOldPeopleRows(sql: Sql<'general'>, pass: RetentionPass): Promise<void> {
  // Index: `person_session_seen_at_idx`; a session that ended by its age is found when it is idle, too.
  await removeOld(sql, pass, 'sessions', {
    old: fragment`
      select s.id from person_session s
      where s.seen_at < clock_timestamp() - ${SESSION_IDLE_DAYS}::int * interval '1 day'
      order by s.seen_at`,
    deletes: fragment`gone as (delete from person_session s using old where s.id = old.id returning s.id)`,
  });
  // A lock-out is shorter than failures are kept. Index: `sign_in_failure_failed_at_idx`.
  await removeOld(sql, pass, 'sign-in failures', {
    old: fragment`
      select f.email_hash, f.source from sign_in_failure f
      where f.failed_at < clock_timestamp() - ${FAILURES_KEPT_MINUTES}::int * interval '1 minute'
      order by f.failed_at`,
    deletes: fragment`
      gone as (
        delete from sign_in_failure f
        using old
        where f.email_hash = old.email_hash and f.source = old.source
        returning f.email_hash
      )`,
  });
  // Index: `person_verification_expires_at_idx`.
  await removeOld(sql, pass, 'verifications', {
    old: fragment`
      select v.id from person_verification v
      where v.expires_at < clock_timestamp()
      order by v.expires_at`,
    deletes: fragment`gone as (delete from person_verification v using old where v.id = old.id returning v.id)`,
  });
}
