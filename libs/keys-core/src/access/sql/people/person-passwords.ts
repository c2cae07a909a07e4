import { randomUUID } from 'node:crypto';
import { readClock, type RecordSql } from '../../../postgres/records.ts';

/** The account with which a person signs in by a password. */
function passwordOf(personId: string) {
  return { providerId: 'credential', accountId: personId };
}

/** Sets the password of a person, as a hash of `hashPassword`. */
export async function setPassword(
  sql: RecordSql,
  personId: string,
  passwordHash: string,
): Promise<void> {
  const account = passwordOf(personId);
  await sql.records.personAccount.upsert({
    where: { providerId_accountId: account },
    create: { id: randomUUID(), personId, ...account, password: passwordHash },
    update: { password: passwordHash, updatedAt: await readClock(sql) },
    select: { id: true },
  });
}

/**
 * Replaces the password of a person, if it is still the one that was checked: only one of two changes
 * at once that both knew it counts. @returns false when it was changed.
 */
export async function replacePassword(
  sql: RecordSql,
  personId: string,
  change: { readonly knownHash: string; readonly newHash: string },
): Promise<boolean> {
  const { count } = await sql.records.personAccount.updateMany({
    where: { ...passwordOf(personId), password: change.knownHash },
    data: { password: change.newHash, updatedAt: await readClock(sql) },
  });
  return count > 0;
}

/** The hash of a person's password; undefined when they sign in another way. */
export async function readPasswordHash(
  { records }: RecordSql,
  personId: string,
): Promise<string | undefined> {
  const account = await records.personAccount.findUnique({
    where: { providerId_accountId: passwordOf(personId) },
    select: { password: true },
  });
  return account?.password ?? undefined;
}
