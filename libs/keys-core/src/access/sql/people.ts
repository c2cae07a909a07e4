import { createHash, randomBytes, randomUUID } from 'node:crypto';
import type { OrderedRole } from '../../kernel/access.ts';
import { LeaseError } from '../../kernel/errors.ts';
import type { Count, Page, Searched, SearchedPage } from '../../kernel/face-types.ts';
import { boundedCount, isUuid, pageOf, placeAfter } from '../../postgres/paging.ts';
import { readClock, type RecordSql } from '../../postgres/records.ts';
import {
  contains,
  type Dated,
  type Fragment,
  fragment,
  isoDates,
  type Sql,
} from '../../postgres/sql.ts';
import { SESSION_IDLE_DAYS, SIGN_IN_METHODS } from './sessions.ts';

/** Somebody who may sign in to the console. */
export interface PersonView {
  readonly personId: string;
  readonly email: string;
  readonly name: string;
  readonly role: OrderedRole;
  /** What the person is limited to, by the groups of an identity provider; null: nothing. */
  readonly namespaces: readonly string[] | null;
  /** `invited` has not set a password yet; `disabled` may not sign in and has no session. */
  readonly status: 'invited' | 'active' | 'disabled';
  /** How the person signs in; empty while invited. */
  readonly signInMethods: ('password' | 'oidc')[];
  /** Until when sign-in is refused after repeated failures; null when it is not. */
  readonly lockedUntil: string | null;
  readonly createdAt: string;
  readonly lastSignInAt: string | null;
  readonly sessionCount: number;
}

type PersonRow = Dated<PersonView, 'lockedUntil' | 'createdAt' | 'lastSignInAt'>;

/**
 * People, newest first, or one of them. Indexes: `person_created_at_idx`; for each person on the page
 * `person_account_person_id_idx`, `person_session_person_id_idx` and the key of `sign_in_failure`.
 */
async function readPeople(
  sql: Sql<'general'>,
  input: {
    readonly personId: string | null;
    readonly after: readonly [string, string] | null;
    readonly search?: string | undefined;
    readonly limit: number;
  },
): Promise<PersonView[]> {
  const [afterAt, afterId] = input.after ?? [null, null];
  const rows = await sql.$queryRaw<PersonRow[]>`
    select p.id::text as "personId", p.email, p.name, p.role, p.namespaces,
      case when p.disabled_at is not null then 'disabled'
        when p.joined_at is null then 'invited'
        else 'active' end as status,
      ${SIGN_IN_METHODS} as "signInMethods",
      (
        select max(f.locked_until)
        from sign_in_failure f
        where f.email_hash = encode(sha256(convert_to(p.email, 'UTF8')), 'hex') collate "C"
          and clock_timestamp() < f.locked_until
      ) as "lockedUntil",
      p.created_at as "createdAt", p.last_sign_in_at as "lastSignInAt",
      (
        select count(*)::int
        from person_session s
        where s.person_id = p.id and s.epoch = p.session_epoch
          and clock_timestamp() < s.expires_at
          and clock_timestamp() < s.seen_at + ${SESSION_IDLE_DAYS}::int * interval '1 day'
      ) as "sessionCount"
    from person p
    where (${input.personId}::uuid is null or p.id = ${input.personId}::uuid)
      and (${afterAt}::timestamptz is null
        or (p.created_at, p.id) < (${afterAt}::timestamptz, ${afterId}::uuid))
      and ${isFound(input)}
    order by p.created_at desc, p.id desc
    limit ${input.limit}`;
  return rows.map((row) => isoDates(row));
}

/** People, newest first. */
export async function listPeople(
  sql: Sql<'general'>,
  input: SearchedPage,
): Promise<Page<PersonView>> {
  const after = input.cursor === undefined ? null : placeAfter(input.cursor, isUuid);
  const { search, limit } = input;
  const rows = await readPeople(sql, { personId: null, after, search, limit: limit + 1 });
  return pageOf(rows, input.limit, (person) => [person.createdAt, person.personId]);
}

/** How many people all pages have together. */
export function countPeople(sql: Sql<'general'>, input: Searched): Promise<Count> {
  return boundedCount(sql, fragment`person p where ${isFound(input)}`);
}

/** Whether the search is a part of the name or the e-mail address, in any case. */
function isFound({ search }: Searched): Fragment {
  return search === undefined
    ? fragment`true`
    : contains(fragment`concat_ws(' ', p.name, p.email)`, search);
}

/** The person with this address, in lower case. */
export async function findPersonId(
  { records }: RecordSql,
  email: string,
): Promise<string | undefined> {
  const person = await records.person.findUnique({ where: { email }, select: { id: true } });
  return person?.id;
}

/** @throws {LeaseError} `person.not_found`. */
export async function readPerson(sql: Sql<'general'>, personId: string): Promise<PersonView> {
  const [person] = await readPeople(sql, { personId, after: null, limit: 1 });
  if (person === undefined) throw new LeaseError('person.not_found');
  return person;
}

// Changes of people. Each is one statement that decides by itself whether it may be made.
//
// The last administrator who can sign in stays one. Each statement that could take one away first
// locks all of them, always in the order of their ids, and then looks at the others as they are
// after the wait: of two administrators who demote each other at once, the second finds itself the
// only one left and is refused.

const ADMINS = fragment`
  admins as materialized (
    select a.id
    from person a
    where a.role = 'admin' and a.disabled_at is null and a.joined_at is not null
    order by a.id
    for update
  )`;

/** True unless `p` is the only administrator who can sign in. */
const IS_NOT_THE_LAST = fragment`(
    p.role <> 'admin' or p.disabled_at is not null or p.joined_at is null
    or (select count(*) from admins a where a.id <> p.id) > 0
  )`;

/**
 * Gives a person another role, in the namespaces that are given. Where none are, another role is for all namespaces, and
 * the same one stays limited as it is. `changed` is false when it is theirs already.
 * Locks the person's row, and those of all administrators when one would be lost.
 * @throws {LeaseError} `person.not_found`, `person.last_admin`.
 */
export async function changeRole(
  sql: RecordSql,
  personId: string,
  role: OrderedRole,
  namespaces?: readonly string[] | null,
): Promise<
  { changed: false } | { changed: true; email: string; formerNamespaces: string[] | null }
> {
  const wanted = namespaces ? [...namespaces] : null;
  const [changed] = await sql.$queryRaw<{ email: string; formerNamespaces: string[] | null }[]>`
    with ${ADMINS}
    update person p
    set role = ${role}, namespaces = ${wanted}::text[], updated_at = clock_timestamp()
    where p.id = ${personId}::uuid
      and (
        p.role <> ${role}
        or (${namespaces !== undefined} and p.namespaces is distinct from ${wanted}::text[])
      )
      and (${role} = 'admin' or ${IS_NOT_THE_LAST})
    returning p.email,
      (select former.namespaces from person former where former.id = p.id) as "formerNamespaces"`;
  if (changed !== undefined) return { changed: true, ...changed };
  const person = await readForRefusal(sql, personId);
  if (person.role !== role) throw new LeaseError('person.last_admin');
  return { changed: false };
}

/**
 * Makes a person that an identity provider vouches for, who joins with their first sign-in.
 * @returns the id of who was made; undefined when there is somebody with this address.
 */
export async function addPerson(
  { records }: RecordSql,
  person: {
    readonly email: string;
    readonly name: string;
    readonly role: OrderedRole;
    readonly namespaces: readonly string[] | null;
    readonly addedBy: string;
  },
): Promise<string | undefined> {
  const { email, name, role, namespaces, addedBy } = person;
  const [made] = await records.person.createManyAndReturn({
    data: [
      {
        id: randomUUID(),
        email,
        name,
        role,
        invitedBy: addedBy,
        ...(namespaces === null ? {} : { namespaces: [...namespaces] }),
      },
    ],
    skipDuplicates: true,
    select: { id: true },
  });
  return made?.id;
}

/**
 * Bars a person from signing in, and ends a link of theirs: it must not open anything once they are
 * enabled again. `changed` is false when they were barred before. Locks as {@link changeRole} does.
 * @throws {LeaseError} `person.not_found`, `person.last_admin`.
 */
export async function disablePerson(
  sql: RecordSql,
  personId: string,
): Promise<{ changed: false } | { changed: true; email: string }> {
  const [changed] = await sql.$queryRaw<{ email: string }[]>`
    with ${ADMINS}
    update person p
    set disabled_at = clock_timestamp(),
      invitation_hash = null,
      invitation_expires_at = null,
      updated_at = clock_timestamp()
    where p.id = ${personId}::uuid and p.disabled_at is null and ${IS_NOT_THE_LAST}
    returning p.email`;
  if (changed !== undefined) return { changed: true, email: changed.email };
  const person = await readForRefusal(sql, personId);
  if (!person.isDisabled) throw new LeaseError('person.last_admin');
  return { changed: false };
}

/**
 * Lets a disabled person sign in again.
 * @throws {LeaseError} `person.not_found`.
 */
export async function enablePerson(
  sql: RecordSql,
  personId: string,
): Promise<{ changed: boolean; email: string }> {
  const [changed] = await sql.records.person.updateManyAndReturn({
    where: { id: personId, disabledAt: { not: null } },
    data: { disabledAt: null, updatedAt: await readClock(sql) },
    select: { email: true },
  });
  if (changed !== undefined) return { changed: true, email: changed.email };
  const { email } = await readForRefusal(sql, personId);
  return { changed: false, email };
}

/** @throws {LeaseError} `person.not_found`. */
export async function readForRefusal(
  { records }: RecordSql,
  personId: string,
): Promise<{ readonly email: string; readonly role: OrderedRole; readonly isDisabled: boolean }> {
  const select = { email: true, role: true, disabledAt: true };
  const person = await records.person.findUnique({ where: { id: personId }, select });
  if (person === null) throw new LeaseError('person.not_found');
  const { email, role, disabledAt } = person;
  return { email, role: role as OrderedRole, isDisabled: disabledAt !== null };
}

/**
 * Whether a person may begin a session; writes down that they did. A person who joins with it needs no
 * invitation any more. The link of a password reset stays: otherwise a person who knows the old
 * password could end it by signing in. Locks the person's row; zero rows: disabled, not there, or
 * all their sessions were ended since `knownEpoch` was read.
 */
export async function recordSignIn(
  sql: RecordSql,
  personId: string,
  knownEpoch?: number,
): Promise<{ email: string; role: OrderedRole; epoch: number } | undefined> {
  const now = await readClock(sql);
  const mayBegin = {
    id: personId,
    disabledAt: null,
    ...(knownEpoch === undefined ? {} : { sessionEpoch: knownEpoch }),
  };
  const select = { email: true, role: true, sessionEpoch: true };
  const joins = { joinedAt: now, invitationHash: null, invitationExpiresAt: null };
  // Who joins meanwhile by a link is found by the second: nobody leaves again.
  const [joined] = await sql.records.person.updateManyAndReturn({
    where: { ...mayBegin, joinedAt: null },
    data: { lastSignInAt: now, ...joins },
    select,
  });
  const [known] =
    joined === undefined
      ? await sql.records.person.updateManyAndReturn({
          where: { ...mayBegin, joinedAt: { not: null } },
          data: { lastSignInAt: now },
          select,
        })
      : [joined];
  if (known === undefined) return undefined;
  const { email, role, sessionEpoch } = known;
  return { email, role: role as OrderedRole, epoch: sessionEpoch };
}

/** For how long the link of an invitation can be used. */
const INVITATION_DAYS = 7;
/** For how long the link with which somebody chooses a new password can be used. */
const PASSWORD_RESET_MS = 24 * 3_600_000;
const SECRET_BYTES = 32;

/** The secret of a one-time link: 32 random bytes. */
export function newInvitationSecret(): string {
  return randomBytes(SECRET_BYTES).toString('base64url');
}

/** What is kept of the secret of a link; random, so a plain hash is enough. */
function hashInvitation(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}

/**
 * Makes a person who may accept with this secret, or gives one who has not accepted yet a new link,
 * which ends the one before. One statement, because it changes nobody who joins meanwhile. Locks the person's row, if there is one. Index: `person_email_key`.
 * Zero rows: the address is of somebody who has joined.
 * @throws {LeaseError} `person.exists`.
 */
export async function invitePerson(
  sql: Sql<'general'>,
  input: {
    readonly email: string;
    readonly name: string | null;
    readonly role: OrderedRole;
    readonly secret: string;
    readonly invitedBy: string;
  },
): Promise<{ personId: string; expiresAt: string }> {
  const rows = await sql.$queryRaw<{ personId: string; expiresAt: Date }[]>`
    insert into person as p (
      id, email, name, role, invited_by, invitation_hash, invitation_expires_at
    )
    values (
      ${randomUUID()}::uuid, ${input.email}, ${input.name ?? input.email}, ${input.role},
      ${input.invitedBy}, ${hashInvitation(input.secret)},
      clock_timestamp() + ${INVITATION_DAYS}::int * interval '1 day'
    )
    on conflict (email) do update
    set role = excluded.role,
      namespaces = null,
      name = coalesce(${input.name}, p.name),
      invited_by = excluded.invited_by,
      invitation_hash = excluded.invitation_hash,
      invitation_expires_at = clock_timestamp() + ${INVITATION_DAYS}::int * interval '1 day',
      disabled_at = null,
      updated_at = clock_timestamp()
    where p.joined_at is null
    returning p.id::text as "personId", p.invitation_expires_at as "expiresAt"`;
  const [row] = rows;
  if (row === undefined) throw new LeaseError('person.exists');
  return { personId: row.personId, expiresAt: row.expiresAt.toISOString() };
}

/**
 * Gives somebody who has joined a link with this secret, with which they choose a new password; an
 * earlier link ends. What they sign in with now works until the link is used.
 * @throws {LeaseError} `person.not_found`, `person.disabled`, `person.not_joined`.
 */
export async function openPasswordReset(
  sql: RecordSql,
  input: { readonly personId: string; readonly secret: string },
): Promise<{ email: string; expiresAt: string }> {
  const now = await readClock(sql);
  const expiresAt = new Date(Number(now) + PASSWORD_RESET_MS);
  const [row] = await sql.records.person.updateManyAndReturn({
    where: { id: input.personId, joinedAt: { not: null }, disabledAt: null },
    data: {
      invitationHash: hashInvitation(input.secret),
      invitationExpiresAt: expiresAt,
      updatedAt: now,
    },
    select: { email: true },
  });
  if (row !== undefined) return { email: row.email, expiresAt: expiresAt.toISOString() };
  const { isDisabled } = await readForRefusal(sql, input.personId);
  throw new LeaseError(isDisabled ? 'person.disabled' : 'person.not_joined');
}

/** Whether a link, of either kind, can be used now. */
export async function isInvitationOpen(sql: RecordSql, secret: string): Promise<boolean> {
  return (await findInvited(sql, secret, await readClock(sql))) !== null;
}

/** Who has a link that can be used at an instant. */
function findInvited({ records }: RecordSql, secret: string, now: Date) {
  return records.person.findUnique({
    where: {
      invitationHash: hashInvitation(secret),
      disabledAt: null,
      invitationExpiresAt: { gt: now },
    },
    select: { id: true, name: true, joinedAt: true },
  });
}

/** The person who used a link; `isReset`: they had joined before, and choose a new password. */
export interface Accepted {
  readonly personId: string;
  readonly email: string;
  readonly role: OrderedRole;
  readonly isReset: boolean;
}

/**
 * Uses a link: once, however many try, because the update finds only a link that is still there. The name counts
 * only for a person who joins; others keep theirs. Undefined: unknown, used, replaced, too late, or of somebody
 * disabled.
 */
export async function acceptInvitation(
  sql: RecordSql,
  input: { readonly secret: string; readonly name: string | null },
): Promise<Accepted | undefined> {
  const now = await readClock(sql);
  const invited = await findInvited(sql, input.secret, now);
  if (invited === null) return undefined;
  const { id, joinedAt } = invited;
  const [used] = await sql.records.person.updateManyAndReturn({
    where: { id, invitationHash: hashInvitation(input.secret), disabledAt: null, joinedAt },
    data: {
      joinedAt: joinedAt ?? now,
      ...(joinedAt === null && input.name !== null ? { name: input.name } : {}),
      invitationHash: null,
      invitationExpiresAt: null,
      updatedAt: now,
    },
    select: { email: true, role: true },
  });
  if (used === undefined) return undefined;
  const { email, role } = used;
  return { personId: id, email, role: role as OrderedRole, isReset: joinedAt !== null };
}
