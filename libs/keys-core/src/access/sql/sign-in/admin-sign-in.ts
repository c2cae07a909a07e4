import type { RecordSql } from '../../../postgres/records.ts';
import type { AdminSignIn } from './first-admin.ts';
import { verifyPassword } from '../../password.ts';

/**
 * Whether this opens the console to an administrator at this moment: for a caller that kept a
 * password and must know if it was changed since. Counts no try, and locks nobody out.
 */
export async function isAdminSignIn(
  sql: RecordSql,
  { email, password }: AdminSignIn,
): Promise<boolean> {
  const hash = await passwordHashOf(sql, email.toLowerCase());
  return hash !== undefined && (await verifyPassword(hash, password));
}

/** Undefined: there is no such person, or they are no administrator, disabled, or without a password. */
async function passwordHashOf({ records }: RecordSql, email: string): Promise<string | undefined> {
  const account = await records.personAccount.findFirst({
    where: { providerId: 'credential', person: { email, role: 'admin', disabledAt: null } },
    select: { password: true },
  });
  return account?.password ?? undefined;
}
