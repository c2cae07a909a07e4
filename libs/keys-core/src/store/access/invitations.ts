import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { LeaseError } from '../../kernel/errors.ts';
import type { LadderRole } from '../../kernel/roles.ts';
import type { Sql } from '../rows.ts';

/** For how long the link of an invitation can be used. */
export const INVITATION_DAYS = 7;
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
  sql: Sql,
  input: {
    readonly email: string;
    readonly name: string | null;
    readonly role: LadderRole;
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

/** Whether a link can be used now. Index: `person_invitation_hash_key`. */
export async function isInvitationOpen(sql: Sql, secret: string): Promise<boolean> {
  const rows = await sql.$queryRaw<{ id: string }[]>`
    select p.id::text
    from person p
    where p.invitation_hash = ${hashInvitation(secret)} and p.joined_at is null
      and p.disabled_at is null and clock_timestamp() < p.invitation_expires_at`;
  return rows.length > 0;
}

/**
 * Takes an invitation up: once, however many try. Locks the person's row. Index:
 * `person_invitation_hash_key`. Zero rows: unknown, used, replaced, or too late.
 */
export async function acceptInvitation(
  sql: Sql,
  input: { readonly secret: string; readonly name: string | null },
): Promise<{ personId: string; email: string; role: LadderRole } | undefined> {
  const rows = await sql.$queryRaw<{ personId: string; email: string; role: LadderRole }[]>`
    update person p
    set joined_at = clock_timestamp(),
      name = coalesce(${input.name}, p.name),
      invitation_hash = null,
      invitation_expires_at = null,
      updated_at = clock_timestamp()
    where p.invitation_hash = ${hashInvitation(input.secret)} and p.joined_at is null
      and p.disabled_at is null and clock_timestamp() < p.invitation_expires_at
    returning p.id::text as "personId", p.email, p.role`;
  return rows[0];
}
