import type { Sql } from '../../../postgres/sql.ts';
import type { AdminSignIn } from './first-admin.ts';
import { verifyPassword } from '../../password.ts';

/**
 * Whether this opens the console to an administrator at this moment: for a caller that kept a
 * password and must know if it was changed since. Counts no try, and locks nobody out.
 */
export async function isAdminSignIn(
  sql: Sql<'general'>,
  { email, password }: AdminSignIn,
): Promise<boolean> {
  const hash = await passwordHashOf(sql, email.toLowerCase());
  return hash !== undefined && (await verifyPassword(hash, password));
}

/**
 * Locks nothing. Index: `person_email_key`. Zero rows: there is no such person, or they are no
 * administrator, disabled, or without a password.
 */
async function passwordHashOf(sql: Sql<'general'>, email: string): Promise<string | undefined> {
  const rows = await sql.$queryRaw<{ password: string }[]>`
    select a.password
    from person p
    join person_account a on a.person_id = p.id and a.provider_id = 'credential'
    where p.email = ${email} and p.role = 'admin' and p.disabled_at is null
      and a.password is not null`;
  return rows[0]?.password;
}
