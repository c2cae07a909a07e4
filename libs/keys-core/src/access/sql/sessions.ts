import type { OrderedRole } from '../../kernel/access.ts';
import type { RecordSql } from '../../postgres/records.ts';
import { removeOld, type RetentionPass } from '../../postgres/retention-pass.ts';
import { type Dated, fragment, isoDates, type Sql } from '../../postgres/sql.ts';
import { FAILURES_KEPT_MINUTES } from './sign-in-failures.ts';

/** A way in which a person signs in. */
type SignInMethod = 'password' | 'oidc';

/** How the person `p` signs in. Index: `person_account_person_id_idx`. */
export const SIGN_IN_METHODS = fragment`
  array(
    select distinct case a.provider_id when 'credential' then 'password' else a.provider_id end
    from person_account a
    where a.person_id = p.id
    order by 1
  )`;

/** A session that is not used for this long ends. */
export const SESSION_IDLE_DAYS = 7;
/** A session ends after this long, however much it is used. */
export const SESSION_DAYS_MAX = 30;

/** A session in force, with its person and the person's present role. */
export interface SessionAccess {
  readonly sessionId: string;
  readonly personId: string;
  readonly email: string;
  readonly name: string;
  readonly role: OrderedRole;
  /** What the person is limited to; null: nothing. */
  readonly namespaces: readonly string[] | null;
  readonly signInMethods: SignInMethod[];
  /** When it ends unless it is used: the earlier of its two ends. */
  readonly expiresAt: string;
}

/**
 * The session with this token, if it is in force by the database's clock: neither idle for too long
 * nor too old, nor of an earlier epoch, of a person who is not disabled. Indexes: `person_session_token_key`,
 * `person_account_person_id_idx`. Zero rows: there is no such session in force.
 */
export async function findPersonSession(
  sql: Sql<'vital'>,
  token: string,
): Promise<SessionAccess | undefined> {
  const [row] = await sql.$queryRaw<Dated<SessionAccess, 'expiresAt'>[]>`
    select s.id::text as "sessionId", p.id::text as "personId", p.email, p.name, p.role, p.namespaces,
      ${SIGN_IN_METHODS} as "signInMethods",
      least(s.expires_at, s.seen_at + ${SESSION_IDLE_DAYS}::int * interval '1 day') as "expiresAt"
    from person_session s
    join person p on p.id = s.person_id
    where s.token = ${token} and p.disabled_at is null and s.epoch = p.session_epoch
      and clock_timestamp() < s.expires_at
      and clock_timestamp() < s.seen_at + ${SESSION_IDLE_DAYS}::int * interval '1 day'`;
  return row && isoDates(row);
}

/** What the person of a session may do at this moment. */
export interface Standing {
  readonly role: OrderedRole;
  readonly namespaces: readonly string[] | null;
}

/** Which of these sessions are still in force, each with what its person may do. */
export async function personSessionsInForce(
  sql: Sql<'vital'>,
  sessionIds: readonly string[],
): Promise<Map<string, Standing>> {
  const rows = await sql.$queryRaw<({ sessionId: string } & Standing)[]>`
    select s.id::text as "sessionId", p.role, p.namespaces
    from person_session s
    join person p on p.id = s.person_id
    where s.id = any(${[...sessionIds]}::uuid[]) and p.disabled_at is null
      and s.epoch = p.session_epoch and clock_timestamp() < s.expires_at
      and clock_timestamp() < s.seen_at + ${SESSION_IDLE_DAYS}::int * interval '1 day'`;
  return new Map(rows.map((row) => [row.sessionId, row]));
}

/**
 * Writes down that sessions were used, in one statement for all. Rows that another controller is
 * writing are skipped. One that has ended stays as it is.
 */
export async function markSessionsSeen(
  sql: Sql<'vital'>,
  sessionIds: readonly string[],
): Promise<void> {
  await sql.$queryRaw<{ id: string }[]>`
    with seen as materialized (
      select s.id
      from person_session s
      where s.id = any(${[...sessionIds]}::uuid[])
        and clock_timestamp() < s.seen_at + ${SESSION_IDLE_DAYS}::int * interval '1 day'
      order by s.id
      for no key update skip locked
    )
    update person_session s
    set seen_at = clock_timestamp()
    from seen
    where s.id = seen.id
    returning s.id::text`;
}

/**
 * The session epoch of a person, for a session that begins now; undefined when there is no such
 * person. Read it before the password is checked: a session that begins with it does not count if
 * all were ended meanwhile, whichever of the two is written first.
 */
export async function readSessionEpoch(
  { records }: RecordSql,
  email: string,
): Promise<number | undefined> {
  const select = { sessionEpoch: true };
  return (await records.person.findUnique({ where: { email }, select }))?.sessionEpoch;
}

/**
 * Ends every session of a person, also one that is just beginning: those of the previous epoch do
 * not count, which comes first. @returns how many.
 */
export async function endSessionsOf({ records }: RecordSql, personId: string): Promise<number> {
  await records.person.updateMany({
    where: { id: personId },
    data: { sessionEpoch: { increment: 1 } },
  });
  const { count } = await records.personSession.deleteMany({ where: { personId } });
  return count;
}

/**
 * Ends every session of a person but one, as {@link endSessionsOf} does; the one that is kept
 * continues in the new epoch. In a transaction, so that nobody sees it outside of the present epoch. @returns how many.
 */
export async function endOtherSessions(
  { records }: RecordSql,
  personId: string,
  keptSessionId: string,
): Promise<number> {
  const [person] = await records.person.updateManyAndReturn({
    where: { id: personId },
    data: { sessionEpoch: { increment: 1 } },
    select: { sessionEpoch: true },
  });
  if (person === undefined) return 0;
  const { sessionEpoch: epoch } = person;
  await records.personSession.updateMany({
    where: { id: keptSessionId, personId, epoch: epoch - 1 },
    data: { epoch },
  });
  const { count } = await records.personSession.deleteMany({
    where: { personId, id: { not: keptSessionId } },
  });
  return count;
}

/** Ends one session. @returns whether it was there. */
export async function endSession({ records }: RecordSql, sessionId: string): Promise<boolean> {
  const { count } = await records.personSession.deleteMany({ where: { id: sessionId } });
  return count > 0;
}

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
