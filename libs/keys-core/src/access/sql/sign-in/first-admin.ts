import { randomUUID } from 'node:crypto';
import type { Store } from '../../../postgres/open-store.ts';
import { readClock, type RecordSql } from '../../../postgres/records.ts';
import type { Sql } from '../../../postgres/sql.ts';
import { writeAudit } from '../audit.ts';
import { hashPassword, newPassword } from '../../password.ts';
import { setPassword } from '../people/person-passwords.ts';
import { endSessionsOf } from '../people/person-sessions.ts';
import { forgetSignInFailures } from './sign-in-failures.ts';

/** The email address of the first administrator when none is given. */
export const FIRST_ADMIN_EMAIL = 'admin@leasehold.local';

/** What an administrator signs in with; the password is in this answer and nowhere else. */
export interface AdminSignIn {
  readonly email: string;
  readonly password: string;
}

type People = Pick<Store, 'general'>;

/**
 * Makes an administrator with a new password, unless one can sign in already: then undefined, and
 * nothing is changed. Only one of several calls at once makes them. `keep` is called before others can see
 * them: a caller that writes the password down in it cannot lose it, and nobody is made when it throws.
 */
export async function ensureFirstAdmin(
  store: People,
  input: { readonly email: string; readonly name?: string | undefined },
  keep: (signIn: AdminSignIn) => void = () => undefined,
): Promise<AdminSignIn | undefined> {
  if (await hasActiveAdmin(store.general)) return undefined;
  const email = input.email.toLowerCase();
  const password = newPassword();
  const passwordHash = await hashPassword(password);
  const isMade = await store.general.$transaction(async (tx) => {
    const made = await insertFirstAdmin(tx, { email, name: input.name ?? email });
    if (made === undefined) return false;
    await setPassword(tx, made, passwordHash);
    await auditMaking(tx, { personId: made, email });
    keep({ email, password });
    return true;
  });
  return isMade ? { email, password } : undefined;
}

/**
 * Makes an administrator, whatever the person was before: a new person, or one who was disabled, locked out,
 * demoted, or has lost the password. Sessions of theirs end; a controller that gets the hint learns
 * it at once. For the person who has the database, when nobody can sign in any more.
 */
export async function makeAdmin(
  store: People,
  input: { readonly email: string; readonly name?: string | undefined; readonly password: string },
): Promise<{ personId: string; isNew: boolean }> {
  const email = input.email.toLowerCase();
  const passwordHash = await hashPassword(input.password);
  return store.general.$transaction(async (tx) => {
    const made = await upsertAdmin(tx, { email, name: input.name ?? null });
    await setPassword(tx, made.personId, passwordHash);
    await endSessionsOf(tx, made.personId);
    await forgetSignInFailures(tx, email);
    await auditMaking(tx, { personId: made.personId, email });
    return made;
  });
}

async function auditMaking(
  sql: RecordSql,
  made: { readonly personId: string; readonly email: string },
): Promise<void> {
  await writeAudit(sql, {
    actor: 'command line',
    role: 'admin',
    action: 'people.makeAdmin',
    resource: `person:${made.personId}`,
    detail: { email: made.email },
  });
}

/** Whether anybody can administer with the console: an administrator with a way to sign in. */
async function hasActiveAdmin({ records }: RecordSql): Promise<boolean> {
  const where = { role: 'admin', disabledAt: null, joinedAt: { not: null } };
  return (await records.person.findFirst({ where, select: { id: true } })) !== null;
}

/** Undefined: there is an administrator, or somebody with this address; of several calls at once one makes it. */
async function insertFirstAdmin(
  sql: RecordSql,
  input: { email: string; name: string },
): Promise<string | undefined> {
  if (await hasActiveAdmin(sql)) return undefined;
  const [made] = await sql.records.person.createManyAndReturn({
    data: [{ id: randomUUID(), ...input, role: 'admin', joinedAt: await readClock(sql) }],
    skipDuplicates: true,
    select: { id: true },
  });
  return made?.id;
}

/**
 * One statement, because it changes whatever the person is at that moment. Locks the person's row. Index:
 * `person_email_key`. Always one row.
 */
async function upsertAdmin(sql: Sql<'general'>, input: { email: string; name: string | null }) {
  const [row] = await sql.$queryRaw<{ personId: string; isNew: boolean }[]>`
    insert into person as p (id, email, name, role, joined_at)
    values (
      ${randomUUID()}::uuid, ${input.email}, ${input.name ?? input.email}, 'admin', clock_timestamp()
    )
    on conflict (email) do update
    set role = 'admin',
      namespaces = null,
      name = coalesce(${input.name}, p.name),
      joined_at = coalesce(p.joined_at, clock_timestamp()),
      disabled_at = null,
      invitation_hash = null,
      invitation_expires_at = null,
      updated_at = clock_timestamp()
    returning p.id::text as "personId", (xmax = 0) as "isNew"`;
  if (row === undefined) throw new Error('a person was neither made nor changed');
  return row;
}
