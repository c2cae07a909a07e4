import type { Sql } from '../../../postgres/rows.ts';

/**
 * Whether somebody signs in with an account of the identity provider already: a second one is not
 * theirs. The database accepts only one of two at once. Index: `person_account_oidc_person_id_key`.
 */
export async function hasOidcAccount(sql: Sql<'general'>, personId: string): Promise<boolean> {
  const rows = await sql.$queryRaw<{ id: string }[]>`
    select a.id::text
    from person_account a
    where a.person_id = ${personId}::uuid and a.provider_id = 'oidc'`;
  return rows.length > 0;
}
