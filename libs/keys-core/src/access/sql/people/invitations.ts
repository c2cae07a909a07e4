import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { LeaseError } from '../../../kernel/errors.ts';
import type { OrderedRole } from '../../../kernel/access.ts';
import type { Sql } from '../../../postgres/sql.ts';
import { readForRefusal } from './people-changes.ts';

/** For how long the link of an invitation can be used. */
export const INVITATION_DAYS = 7;
/** For how long the link with which somebody chooses a new password can be used. */
const PASSWORD_RESET_HOURS = 24;
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
 * which ends the one before. Locks the person's row, if there is one. Index: `person_email_key`.
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
 * earlier link ends. What they sign in with now works until the link is used. Locks the person's
 * row. Index: the primary key. Zero rows: not there, disabled, or not joined.
 * @throws {LeaseError} `person.not_found`, `person.disabled`, `person.not_joined`.
 */
export async function openPasswordReset(
  sql: Sql<'general'>,
  input: { readonly personId: string; readonly secret: string },
): Promise<{ email: string; expiresAt: string }> {
  const [row] = await sql.$queryRaw<{ email: string; expiresAt: Date }[]>`
    update person p
    set invitation_hash = ${hashInvitation(input.secret)},
      invitation_expires_at =
        clock_timestamp() + ${PASSWORD_RESET_HOURS}::int * interval '1 hour',
      updated_at = clock_timestamp()
    where p.id = ${input.personId}::uuid and p.joined_at is not null and p.disabled_at is null
    returning p.email, p.invitation_expires_at as "expiresAt"`;
  if (row !== undefined) return { email: row.email, expiresAt: row.expiresAt.toISOString() };
  const { isDisabled } = await readForRefusal(sql, input.personId);
  throw new LeaseError(isDisabled ? 'person.disabled' : 'person.not_joined');
}

/** Whether a link, of either kind, can be used now. Index: `person_invitation_hash_key`. */
export async function isInvitationOpen(sql: Sql<'general'>, secret: string): Promise<boolean> {
  const rows = await sql.$queryRaw<{ id: string }[]>`
    select p.id::text
    from person p
    where p.invitation_hash = ${hashInvitation(secret)} and p.disabled_at is null
      and clock_timestamp() < p.invitation_expires_at`;
  return rows.length > 0;
}

/** The person who used a link; `isReset`: they had joined before, and choose a new password. */
export interface Accepted {
  readonly personId: string;
  readonly email: string;
  readonly role: OrderedRole;
  readonly isReset: boolean;
}

/**
 * Uses a link: once, however many try. The name counts only for a person who joins; others keep
 * theirs. Locks the person's row. Index: `person_invitation_hash_key`. Zero rows: unknown, used,
 * replaced, too late, or of somebody disabled.
 */
export async function acceptInvitation(
  sql: Sql<'general'>,
  input: { readonly secret: string; readonly name: string | null },
): Promise<Accepted | undefined> {
  const rows = await sql.$queryRaw<Accepted[]>`
    with known as materialized (
      select k.id, k.joined_at is not null as is_reset
      from person k
      where k.invitation_hash = ${hashInvitation(input.secret)} and k.disabled_at is null
        and clock_timestamp() < k.invitation_expires_at
      for update
    )
    update person p
    set joined_at = coalesce(p.joined_at, clock_timestamp()),
      name = case when known.is_reset then p.name else coalesce(${input.name}, p.name) end,
      invitation_hash = null,
      invitation_expires_at = null,
      updated_at = clock_timestamp()
    from known
    where p.id = known.id
    returning p.id::text as "personId", p.email, p.role, known.is_reset as "isReset"`;
  return rows[0];
}
