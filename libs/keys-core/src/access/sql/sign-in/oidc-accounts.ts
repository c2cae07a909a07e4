/**
 * Accounts at an identity provider. A provider's subject means somebody only together with its issuer: another issuer
 * may give the same subject to somebody else. So `account_id` is the issuer, a space, and the subject.
 */
import { fragment, type Sql } from '../../../postgres/sql.ts';

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

/** Whether the issuer of an account is known. */
const IS_BOUND = fragment`a.account_id ~ '^https?://[^ ]+ '`;

const isOf = (issuer: string) => fragment`starts_with(a.account_id, ${`${issuer} `})`;

/**
 * Binds an account from before issuers were kept to the issuer that it signs in with now. Its issuer is not known, so
 * the provider must also have verified the address of the very person that it belongs to: somebody else with the same
 * subject elsewhere has another address.
 */
export async function bindUnboundAccount(
  sql: Sql<'general'>,
  of: OidcSubject,
  verifiedEmail: string,
): Promise<void> {
  await sql.$queryRaw`
    update person_account a
    set account_id = ${oidcAccountId(of)}, updated_at = clock_timestamp()
    from person p
    where a.provider_id = 'oidc' and a.account_id = ${of.subject}
      and p.id = a.person_id and lower(p.email) = lower(${verifiedEmail})
      and not exists (
        select 1 from person_account b
        where b.provider_id = 'oidc' and b.account_id = ${oidcAccountId(of)}
      )
    returning a.id::text`;
}

/**
 * Whether somebody has an account of this issuer already, or one whose issuer is not known: a second one is not
 * theirs. The database accepts only one of two at once. Index: `person_account_oidc_person_id_key`.
 */
export async function hasOidcAccount(
  sql: Sql<'general'>,
  personId: string,
  issuer: string,
): Promise<boolean> {
  const rows = await sql.$queryRaw<{ id: string }[]>`
    select a.id::text as id
    from person_account a
    where a.person_id = ${personId}::uuid and a.provider_id = 'oidc'
      and (not ${IS_BOUND} or ${isOf(issuer)})
    limit 1`;
  return rows.length > 0;
}

/** Whose account this is. Index: the key of accounts. Zero rows: nobody's. */
export async function oidcPersonId(
  sql: Sql<'general'>,
  of: OidcSubject,
): Promise<string | undefined> {
  const rows = await sql.$queryRaw<{ personId: string }[]>`
    select a.person_id::text as "personId"
    from person_account a
    where a.provider_id = 'oidc' and a.account_id = ${oidcAccountId(of)}`;
  return rows[0]?.personId;
}

/** Removes the account of a person at another issuer, which nobody can sign in with any more. */
export async function removeAccountOfOtherIssuer(
  sql: Sql<'general'>,
  personId: string,
  issuer: string,
): Promise<void> {
  await sql.$queryRaw`
    delete from person_account a
    where a.person_id = ${personId}::uuid and a.provider_id = 'oidc'
      and ${IS_BOUND} and not ${isOf(issuer)}
    returning a.id::text`;
}
