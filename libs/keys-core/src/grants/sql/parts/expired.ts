import { fragment, type Fragment } from '../../../postgres/sql.ts';

/** The reason in the event of a grant that ran out before its caller had confirmed it. */
const NOT_CONFIRMED = fragment`'not confirmed: its caller never began to use it'`;

/** That reason, or null for a grant that was confirmed. */
export function expiredReason(isConfirmed: Fragment): Fragment {
  return fragment`case when not ${isConfirmed} then ${NOT_CONFIRMED} end`;
}

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

/** For the `expired` of {@link EXPIRED_FACTS}, from the row `l` as it was. */
export const IS_CONFIRMED = fragment`
        lease_confirmed(l.renewed_at, l.expires_at) as is_confirmed`;

/** How the grant before a new one ended, from its row `l`; `lapsed` and `unconfirmed`: by the new one. */
export const PREVIOUS_END = fragment`
        coalesce(l.end_reason, case
          when lease_confirmed(l.renewed_at, l.expires_at) then 'lapsed' else 'unconfirmed'
        end)`;

/** The kind of the event of a new grant `g`. */
export const GRANT_KIND = fragment`
          case
            when g.previous_end in ('lapsed', 'unconfirmed', 'expired') then 'taken_over'
            else 'granted'
          end`;

/** The one event of each grant that the statement's `granted` has ended by taking its place. */
export const LAPSED_BEFORE = fragment`
        select
          0 as step, g.face, g.namespace, g.name, g.previous_lease_id as lease_id,
          g.previous_fencing_token as fencing_token, 'expired' as kind, 'leasehold' as actor,
          ${expiredReason(fragment`(g.previous_end = 'lapsed')`)} as reason, null::jsonb as detail
        from granted g
        where g.previous_end in ('lapsed', 'unconfirmed')`;

/** The one `lease_reap` row of each of them that is a lease. */
export const LAPSED_REAP = fragment`
    reap as (
      insert into lease_reap (lease_id, face, namespace, name, fencing_token)
      select g.previous_lease_id, g.face, g.namespace, g.name, g.previous_fencing_token
      from granted g
      where g.previous_end = 'lapsed' and g.face = 'lease'
    )`;
