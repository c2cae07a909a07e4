import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { LeaseError } from '../../../kernel/errors.ts';
import type { OrderedRole } from '../../../kernel/access.ts';
import { readClock, type RecordSql } from '../../../postgres/records.ts';
import type { Sql } from '../../../postgres/sql.ts';
import { readForRefusal } from './people-changes.ts';

/** For how long the link of an invitation can be used. */
export const INVITATION_DAYS = 7;
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
      ...{ disabledAt: null, invitationExpiresAt: { gt: now } },
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
      ...{ invitationHash: null, invitationExpiresAt: null, updatedAt: now },
    },
    select: { email: true, role: true },
  });
  if (used === undefined) return undefined;
  const { email, role } = used;
  return { personId: id, email, role: role as OrderedRole, isReset: joinedAt !== null };
}
