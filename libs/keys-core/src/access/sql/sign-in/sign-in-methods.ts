import { fragment, type Sql } from '../../../postgres/sql.ts';

/** A way in which a person signs in. */
export type SignInMethod = 'password' | 'oidc';

/** How the person `p` signs in. Index: `person_account_person_id_idx`. */
export const SIGN_IN_METHODS = fragment`
  array(
    select distinct case a.provider_id when 'credential' then 'password' else a.provider_id end
    from person_account a
    where a.person_id = p.id
    order by 1
  )`;

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
