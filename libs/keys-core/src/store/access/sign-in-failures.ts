import { createHash } from 'node:crypto';
import type { Sql } from '../rows.ts';

/** Failures in a row after which an address is locked. */
export const SIGN_IN_FAILURES_MAX = 10;
export const LOCK_OUT_MINUTES = 15;
/** Failures are forgotten when none follows for so long. */
export const FAILURES_KEPT_MINUTES = 60;

/**
 * Whether a password may be tried; when not, until when. `isLast`: unless the try succeeds, the
 * address is locked now.
 */
export type SignInTry =
  | { readonly outcome: 'allowed'; readonly isLast: boolean }
  | { readonly outcome: 'locked'; readonly lockedUntil: string };

/** What is kept of an address that was typed. */
export function hashEmail(email: string): string {
  return createHash('sha256').update(email.toLowerCase()).digest('hex');
}

/**
 * Counts a try as a failure before the password is looked at: however many come at once, to however
 * many controllers, no more than {@link SIGN_IN_FAILURES_MAX} passwords are tried; a success takes
 * the count back with {@link forgetSignInFailures}. It says nothing about whether there is such a
 * person.
 *
 * One statement: it locks the row of the address, by its primary key. The lock-out is decided on the
 * row as it is after the wait for it, by the clock at that moment. Zero rows: the address is locked,
 * and nothing was changed.
 */
export async function countSignInTry(sql: Sql, email: string): Promise<SignInTry> {
  const rows = await sql.$queryRaw<{ failureCount: number }[]>`
    insert into sign_in_failure as f (email_hash, failure_count, failed_at)
    values (${hashEmail(email)}, 1, clock_timestamp())
    on conflict (email_hash) do update
    set failure_count = case when f.locked_until is null
          and f.failed_at > clock_timestamp() - ${FAILURES_KEPT_MINUTES}::int * interval '1 minute'
        then f.failure_count + 1 else 1 end,
      locked_until = case when f.locked_until is null
          and f.failed_at > clock_timestamp() - ${FAILURES_KEPT_MINUTES}::int * interval '1 minute'
          and f.failure_count + 1 >= ${SIGN_IN_FAILURES_MAX}::int
        then clock_timestamp() + ${LOCK_OUT_MINUTES}::int * interval '1 minute' end,
      failed_at = clock_timestamp()
    where f.locked_until is null or f.locked_until <= clock_timestamp()
    returning f.failure_count as "failureCount"`;
  const [row] = rows;
  if (row !== undefined) {
    return { outcome: 'allowed', isLast: row.failureCount >= SIGN_IN_FAILURES_MAX };
  }
  const lockedUntil = await readLockOut(sql, email);
  // It ended between the two statements: this one try is not counted.
  return lockedUntil === null
    ? { outcome: 'allowed', isLast: false }
    : { outcome: 'locked', lockedUntil };
}

/** Until when an address is locked; null when it is not. Index: the primary key. */
async function readLockOut(sql: Sql, email: string): Promise<string | null> {
  const rows = await sql.$queryRaw<{ lockedUntil: Date }[]>`
    select f.locked_until as "lockedUntil"
    from sign_in_failure f
    where f.email_hash = ${hashEmail(email)} and f.locked_until > clock_timestamp()`;
  return rows[0]?.lockedUntil.toISOString() ?? null;
}

/**
 * Begins the count of an address anew, and ends a lock-out of it. Index: the primary key.
 * @returns whether there was anything to forget.
 */
export async function forgetSignInFailures(sql: Sql, email: string): Promise<boolean> {
  const rows = await sql.$queryRaw<{ emailHash: string }[]>`
    delete from sign_in_failure f
    where f.email_hash = ${hashEmail(email)}
    returning f.email_hash as "emailHash"`;
  return rows.length > 0;
}
