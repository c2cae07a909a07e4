/**
 * Accounts at an identity provider. A provider's subject means somebody only together with its issuer: another issuer
 * may give the same subject to somebody else. So `account_id` is the issuer, a space, and the subject.
 */
import { randomBytes, randomUUID, scrypt, timingSafeEqual } from 'node:crypto';
import { readClock, type RecordSql } from '../../postgres/records.ts';

/** What a person is known by at an identity provider. */
export interface OidcSubject {
  readonly issuer: string;
  readonly subject: string;
}

/** As `person_account.account_id` has it. */
export function oidcAccountId({ issuer, subject }: OidcSubject): string {
  return `${issuer} ${subject}`;
}

/** The issuer has no space: it is a URL. */
export function oidcSubjectOf(accountId: string): OidcSubject {
  const space = accountId.indexOf(' ');
  return { issuer: accountId.slice(0, space), subject: accountId.slice(space + 1) };
}

/**
 * Whether somebody has an account of this issuer already: a second one is not theirs. The database accepts only one of two at once, by `person_account_oidc_person_id_key`.
 */
export async function hasOidcAccount(
  sql: RecordSql,
  personId: string,
  issuer: string,
): Promise<boolean> {
  const accounts = await oidcAccountsOf(sql, personId);
  return accounts.some(({ accountId }) => oidcSubjectOf(accountId).issuer === issuer);
}

/** Whose account this is; undefined: nobody's. */
export async function oidcPersonId(
  { records }: RecordSql,
  of: OidcSubject,
): Promise<string | undefined> {
  const where = accountWith(oidcAccountId(of));
  const account = await records.personAccount.findUnique({ where, select: { personId: true } });
  return account?.personId;
}

/** Removes the account of a person at another issuer, which nobody can sign in with any more. */
export async function removeAccountOfOtherIssuer(
  sql: RecordSql,
  personId: string,
  issuer: string,
): Promise<void> {
  const accounts = await oidcAccountsOf(sql, personId);
  const others = accounts.filter(({ accountId }) => oidcSubjectOf(accountId).issuer !== issuer);
  if (others.length === 0) return;
  await sql.records.personAccount.deleteMany({ where: { OR: others } });
}

function accountWith(accountId: string) {
  return { providerId_accountId: { providerId: 'oidc', accountId } };
}

function oidcAccountsOf({ records }: RecordSql, personId: string) {
  return records.personAccount.findMany({
    where: { personId, providerId: 'oidc' },
    select: { id: true, accountId: true },
  });
}

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

/** Of scrypt: 32 MiB and some 60 ms of one core for each password that is tried. */
const COST = { N: 16_384, r: 16, p: 1, maxmem: 64 * 1_024 * 1_024 };
const KEY_BYTES = 64;
const SALT_BYTES = 16;
const NEW_PASSWORD_BYTES = 15;

/** How long a password may be, in characters. */
export const PASSWORD_LENGTH = { min: 12, max: 128 } as const;

/** A new password that nobody has to think of: 120 random bits in 20 characters. */
export function newPassword(): string {
  return randomBytes(NEW_PASSWORD_BYTES).toString('base64url');
}

/**
 * What is stored of a password: a random salt and the scrypt key, both in hexadecimal. It is the form
 * that better-auth itself would write.
 */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES).toString('hex');
  return `${salt}:${(await keyOf(password, salt)).toString('hex')}`;
}

/** Whether a hash is of this password. Takes as long for a wrong one as for the right one. */
export async function verifyPassword(hash: string, password: string): Promise<boolean> {
  const [salt = '', key = ''] = hash.split(':');
  const tried = await keyOf(password, salt);
  const kept = Buffer.from(key, 'hex');
  return kept.length === tried.length && timingSafeEqual(kept, tried);
}

function keyOf(password: string, salt: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // One text, however it was typed: accents may be composed or not.
    scrypt(password.normalize('NFKC'), salt, KEY_BYTES, COST, (error, key) => {
      if (error === null) resolve(key);
      else reject(error);
    });
  });
}
