/**
 * Guesses at passwords are bounded twice. An email address is soon locked for a source of many
 * guesses: for that source alone, so that nobody can lock out a person who signs in from elsewhere.
 * Only tries from many sources lock it everywhere.
 */
import { networkOf } from '@leasehold/service-kit/network';
import { createHash } from 'node:crypto';
import { readClock, type RecordSql } from '../../postgres/records.ts';
import { type Fragment, fragment, type Sql } from '../../postgres/sql.ts';

/** Failures within an hour after which an address is locked for their source. */
export const SIGN_IN_FAILURES_MAX = 10;
/** Failures within a lock-out's time after which an address is locked everywhere: those of ten sources. */
const SIGN_IN_FAILURES_EVERYWHERE_MAX = 100;
const LOCK_OUT_MINUTES = 15;
/** Failures are forgotten after this long. */
export const FAILURES_KEPT_MINUTES = 60;

/** The source of tries by a person who is signed in: strangers cannot add to their count. */
const CHANGE_PASSWORD = 'change-password';
const EVERYWHERE = '';

/** Whose password is tried, and from where. */
export interface TriedAt {
  readonly email: string;
  /** The caller's address; or a change of the password by the person who is signed in. */
  readonly from: { readonly address: string | null } | 'change-password';
}

/**
 * Whether a password may be tried; when not, until when. `isLast`: unless the try succeeds, the
 * address is locked now.
 */
export type SignInTry =
  | { readonly outcome: 'allowed'; readonly isLast: boolean }
  | { readonly outcome: 'locked'; readonly lockedUntil: string };

/** What is stored of an address that was typed. */
function hashEmail(email: string): string {
  return createHash('sha256').update(email.toLowerCase()).digest('hex');
}

/** The source that tries from an address count for. */
export function sourceOfTries(from: TriedAt['from']): string {
  if (from === CHANGE_PASSWORD) return CHANGE_PASSWORD;
  const { address } = from;
  if (address === null) return 'unknown';
  return networkOf(address);
}

/**
 * Counts a try as a failure before the password is checked: however many come at once, to however
 * many controllers, no more passwords are tried than the bounds say; a success takes its own count
 * back with {@link takeBackSignInTry}. It says nothing about whether there is such a person.
 *
 * One statement: it locks the row of the source, then that of all sources, by the primary key; where
 * one is locked out, that row is left as it is. Each lock-out is decided on its row as it is after the
 * wait for it, by the clock at that moment. Zero rows: the address is locked.
 */
export async function countSignInTry(sql: RecordSql, at: TriedAt): Promise<SignInTry> {
  const emailHash = hashEmail(at.email);
  const source = sourceOfTries(at.from);
  const isEverywhere = at.from !== CHANGE_PASSWORD;
  const [row] = await sql.$queryRaw<{ isLast: boolean }[]>`
    with here as (
      insert into sign_in_failure as f (email_hash, source, failure_count, failed_at, counted_since)
      select ${emailHash}, ${source}, 1, clock_timestamp(), clock_timestamp()
      where not ${isEverywhere}::boolean or not exists (
        select from sign_in_failure e
        where e.email_hash = ${emailHash} and e.source = ${EVERYWHERE}
          and e.locked_until > clock_timestamp()
      )
      ${countedUpTo(SIGN_IN_FAILURES_MAX, FAILURES_KEPT_MINUTES)}
    ),
    everywhere as (
      insert into sign_in_failure as f (email_hash, source, failure_count, failed_at, counted_since)
      select ${emailHash}, ${EVERYWHERE}, 1, clock_timestamp(), clock_timestamp()
      from here
      where ${isEverywhere}::boolean
      ${countedUpTo(SIGN_IN_FAILURES_EVERYWHERE_MAX, LOCK_OUT_MINUTES)}
    )
    select h.is_last or coalesce(e.is_last, false) as "isLast"
    from here h
    left join everywhere e on true
    where not ${isEverywhere}::boolean or e.is_last is not null`;
  if (row !== undefined) return { outcome: 'allowed', isLast: row.isLast };
  const lockedUntil = await readLockOut(
    sql,
    emailHash,
    isEverywhere ? [source, EVERYWHERE] : [source],
  );
  // The lock-out ended between the two statements: this one try is not counted.
  return lockedUntil === null
    ? { outcome: 'allowed', isLast: false }
    : { outcome: 'locked', lockedUntil };
}

/** Counts one more in a row that is there, unless it is locked out: locks it out at `countMax`. */
function countedUpTo(countMax: number, withinMinutes: number): Fragment {
  return fragment`
    on conflict (email_hash, source) do update
    set (failure_count, counted_since, locked_until, failed_at) = (
      select n.failure_count, n.counted_since,
        case when n.failure_count >= ${countMax}::int
          then clock_timestamp() + ${LOCK_OUT_MINUTES}::int * interval '1 minute' end,
        clock_timestamp()
      from (
        select case when k.goes_on then f.failure_count + 1 else 1 end as failure_count,
          case when k.goes_on then f.counted_since else clock_timestamp() end as counted_since
        from (
          select f.locked_until is null and f.counted_since
            > clock_timestamp() - ${withinMinutes}::int * interval '1 minute' as goes_on
        ) k
      ) n
    )
    where f.locked_until is null or f.locked_until <= clock_timestamp()
    returning f.failure_count >= ${countMax}::int as is_last`;
}

/** Until when an address is locked; null when it is not. */
async function readLockOut(sql: RecordSql, emailHash: string, sources: readonly string[]) {
  const now = await readClock(sql);
  const row = await sql.records.signInFailure.findFirst({
    where: { emailHash, source: { in: [...sources] }, lockedUntil: { gt: now } },
    orderBy: { lockedUntil: 'desc' },
    select: { lockedUntil: true },
  });
  return row?.lockedUntil?.toISOString() ?? null;
}

/**
 * After a success: the count of its source starts over; from the count of all sources only this one
 * try is taken back, so that a person's own sign-ins give nobody more guesses. Locks as
 * {@link countSignInTry} does, in the same order.
 */
export async function takeBackSignInTry(sql: Sql<'general'>, at: TriedAt): Promise<void> {
  const emailHash = hashEmail(at.email);
  await sql.$queryRaw<{ source: string }[]>`
    with here as (
      delete from sign_in_failure f
      where f.email_hash = ${emailHash} and f.source = ${sourceOfTries(at.from)}
      returning f.source
    )
    update sign_in_failure f
    set failure_count = greatest(f.failure_count - 1, 0), locked_until = null
    where f.email_hash = ${emailHash} and f.source = ${EVERYWHERE}
      and ${at.from !== CHANGE_PASSWORD}::boolean and (select count(*) from here) >= 0
    returning f.source`;
}

/**
 * Resets every count of an address, and ends its lock-outs. Locks the rows of sources before
 * that of all, as the counting statement does. Index: the primary key.
 * @returns whether there was anything to forget.
 */
export async function forgetSignInFailures(sql: Sql<'general'>, email: string): Promise<boolean> {
  const rows = await sql.$queryRaw<{ failureCount: number }[]>`
    with known as materialized (
      select f.source
      from sign_in_failure f
      where f.email_hash = ${hashEmail(email)}
      order by f.source desc
      for update
    )
    delete from sign_in_failure f
    using known k
    where f.email_hash = ${hashEmail(email)} and f.source = k.source
    returning f.failure_count as "failureCount"`;
  return rows.some(({ failureCount }) => failureCount > 0);
}
