/**
 * Accounts at an identity provider. A provider's subject means somebody only together with its issuer: another issuer
 * may give the same subject to somebody else. So `account_id` is the issuer, a space, and the subject.
 */
import { readClock, type RecordSql } from '../../../postgres/records.ts';

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

/** Whether an account was kept with its issuer, which is a URL. */
function isBound(accountId: string): boolean {
  return /^https?:\/\/[^ ]+ /u.test(accountId);
}

/**
 * Binds an account from before issuers were kept to the issuer that it signs in with now. Its issuer is not known, so
 * the provider must also have verified the address of the very person that it belongs to: somebody else with the same
 * subject elsewhere has another address.
 */
export async function bindUnboundAccount(
  sql: RecordSql,
  of: OidcSubject,
  verifiedEmail: string,
): Promise<void> {
  const { personAccount } = sql.records;
  const unbound = await personAccount.findUnique({
    where: accountWith(of.subject),
    select: { person: { select: { email: true } } },
  });
  if (unbound?.person.email.toLowerCase() !== verifiedEmail.toLowerCase()) return;
  const accountId = oidcAccountId(of);
  if ((await personAccount.findUnique({ where: accountWith(accountId) })) !== null) return;
  await personAccount.updateMany({
    where: { providerId: 'oidc', accountId: of.subject },
    data: { accountId, updatedAt: await readClock(sql) },
  });
}

/**
 * Whether somebody has an account of this issuer already, or one whose issuer is not known: a second one is not
 * theirs. The database accepts only one of two at once, by `person_account_oidc_person_id_key`.
 */
export async function hasOidcAccount(
  sql: RecordSql,
  personId: string,
  issuer: string,
): Promise<boolean> {
  const accounts = await oidcAccountsOf(sql, personId);
  return accounts.some(
    ({ accountId }) => !isBound(accountId) || oidcSubjectOf(accountId).issuer === issuer,
  );
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
  const others = accounts.filter(
    ({ accountId }) => isBound(accountId) && oidcSubjectOf(accountId).issuer !== issuer,
  );
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
