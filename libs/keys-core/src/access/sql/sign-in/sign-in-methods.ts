import { fragment } from '../../../postgres/sql.ts';

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
