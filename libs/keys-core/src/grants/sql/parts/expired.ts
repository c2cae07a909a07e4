import { fragment, type Fragment } from '../../../postgres/sql.ts';

/** The reason in the event of a grant that ran out before its caller had confirmed it. */
const NOT_CONFIRMED = fragment`'not confirmed: its caller never began to use it'`;

/** That reason, or null for a grant that was confirmed. */
export function expiredReason(isConfirmed: Fragment): Fragment {
  return fragment`case when not ${isConfirmed} then ${NOT_CONFIRMED} end`;
}

/** For the `expired` of {@link EXPIRED_FACTS}, from the row `l` as it was. */
export const IS_CONFIRMED = fragment`
        lease_confirmed(l.renewed_at, l.expires_at) as is_confirmed`;

/**
 * What is written for grants that a statement has ended as expired, the rows of its `expired`: one
 * event each, and one `lease_reap` row for a lease. Nobody began to use a grant that was never
 * confirmed, so no use case has to repair anything.
 */
export const EXPIRED_FACTS = fragment`
    fact as (
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, reason)
      select x.face, x.namespace, x.name, x.lease_id, x.fencing_token, 'expired', 'leasehold',
        ${expiredReason(fragment`x.is_confirmed`)}
      from expired x
      order by x.face, x.namespace, x.name
    ),
    reap as (
      insert into lease_reap (lease_id, face, namespace, name, fencing_token)
      select x.lease_id, x.face, x.namespace, x.name, x.fencing_token
      from expired x
      where x.face = 'lease' and x.is_confirmed
    )`;

/**
 * Ends the grants of the statement's `locked` that have expired and that nobody has ended, as its
 * `expired`, and writes the facts of each.
 */
export const EXPIRE_LOCKED = fragment`
    expired as (
      update lease l
      set end_reason = 'expired'
      from locked k
      where l.lease_id = k.lease_id and k.end_reason is null
        and not lease_unexpired(k.released_at, k.end_reason, k.expires_at)
      returning l.face, l.namespace, l.name, l.lease_id, l.fencing_token, l.expires_at, ${IS_CONFIRMED}
    ),
    ${EXPIRED_FACTS}`;

/** How the grant before a new one ended, from its row `l`; `lapsed` and `unconfirmed`: by the new one. */
export const PREVIOUS_END = fragment`
        coalesce(l.end_reason, case
          when lease_confirmed(l.renewed_at, l.expires_at) then 'lapsed' else 'unconfirmed'
        end)`;
