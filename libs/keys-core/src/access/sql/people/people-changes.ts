/**
 * Changes of people. Each is one statement that decides by itself whether it may be made.
 *
 * The last administrator who can sign in stays one. Each statement that could take one away first
 * locks all of them, always in the order of their ids, and then looks at the others as they are
 * after the wait: of two administrators who demote each other at once, the second finds itself the
 * only one left and is refused.
 */
import { randomUUID } from 'node:crypto';
import { LeaseError } from '../../../kernel/errors.ts';
import type { OrderedRole } from '../../../kernel/access.ts';
import { readClock, type RecordSql } from '../../../postgres/records.ts';
import { fragment, type Sql } from '../../../postgres/sql.ts';

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
 * Gives a person another role, in all namespaces unless some are given. `changed` is false when it is theirs already.
 * Locks the person's row, and those of all administrators when one would be lost.
 * @throws {LeaseError} `person.not_found`, `person.last_admin`.
 */
export async function changeRole(
  sql: RecordSql,
  personId: string,
  role: OrderedRole,
  namespaces: readonly string[] | null = null,
): Promise<{ changed: false } | { changed: true; email: string }> {
  const wanted = namespaces === null ? null : [...namespaces];
  const [changed] = await sql.$queryRaw<{ email: string }[]>`
    with ${ADMINS}
    update person p
    set role = ${role}, namespaces = ${wanted}::text[], updated_at = clock_timestamp()
    where p.id = ${personId}::uuid
      and (p.role <> ${role} or p.namespaces is distinct from ${wanted}::text[])
      and (${role} = 'admin' or ${IS_NOT_THE_LAST})
    returning p.email`;
  if (changed !== undefined) return { changed: true, email: changed.email };
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
        ...{ id: randomUUID(), email, name, role, invitedBy: addedBy },
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
  sql: Sql<'general'>,
  personId: string,
  knownEpoch?: number,
): Promise<{ email: string; role: OrderedRole; epoch: number } | undefined> {
  const rows = await sql.$queryRaw<{ email: string; role: OrderedRole; epoch: number }[]>`
    update person p
    set last_sign_in_at = clock_timestamp(),
      joined_at = coalesce(p.joined_at, clock_timestamp()),
      invitation_hash = case when p.joined_at is not null then p.invitation_hash end,
      invitation_expires_at = case when p.joined_at is not null then p.invitation_expires_at end
    where p.id = ${personId}::uuid and p.disabled_at is null
      and p.session_epoch = coalesce(${knownEpoch ?? null}::int, p.session_epoch)
    returning p.email, p.role, p.session_epoch as epoch`;
  return rows[0];
}
