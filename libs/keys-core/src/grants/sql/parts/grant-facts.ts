import { C, type Fragment, fragment } from '../../../postgres/sql.ts';
import { expiredReason } from './expired.ts';

/** What the event of a grant says of its request. */
export function grantDetail(w: Fragment): Fragment {
  // Who used an environment is asked together with what for, long after.
  return fragment`
          case
            when ${w}.face = 'environment' then jsonb_build_object(
              'holder', ${w}.holder, 'principal', ${w}.principal, 'action', ${w}.tag, 'comment', ${w}.comment
            )
            else jsonb_build_object('holder', ${w}.holder, 'principal', ${w}.principal)
          end`;
}

/**
 * What is written with every grant, from the rows of the statement's `granted` and `wanted`: its events, and
 * the callback that the grant before it owes.
 */
export const GRANT_EVENTS = fragment`
    fact as (
      insert into lease_event (
        face, namespace, name, lease_id, fencing_token, kind, actor, reason, detail
      )
      select
        f.face, f.namespace, f.name, f.lease_id, f.fencing_token, f.kind, f.actor, f.reason, f.detail
      from (
        -- The one event of each grant that this one has ended by taking its place.
        select
          0 as step, g.face, g.namespace, g.name, g.previous_lease_id as lease_id,
          g.previous_fencing_token as fencing_token, 'expired' as kind, 'leasehold' as actor,
          ${expiredReason(fragment`(g.previous_end = 'lapsed')`)} as reason, null::jsonb as detail
        from granted g
        where g.previous_end in ('lapsed', 'unconfirmed')
        union all
        select
          1, g.face, g.namespace, g.name, g.lease_id, g.fencing_token,
          case
            when g.previous_end in ('lapsed', 'unconfirmed', 'expired') then 'taken_over'
            else 'granted'
          end,
          w.actor, null, ${grantDetail(fragment`w`)}
        from granted g
        join wanted w on w.lease_id = g.lease_id
      ) f
      order by f.face, f.namespace, f.name, f.step
    ),
    -- The callback of each of them that is a lease.
    reap as (
      insert into lease_reap (lease_id, face, namespace, name, fencing_token)
      select g.previous_lease_id, g.face, g.namespace, g.name, g.previous_fencing_token
      from granted g
      where g.previous_end = 'lapsed' and g.face = 'lease'
    )`;

/** Those, and what becomes of the ticket and the idempotency key of its request. */
export const GRANT_FACTS = fragment`
    ${GRANT_EVENTS},
    -- Taken from what was granted: a statement that deleted its ticket whatever came of it would eat
    -- the tickets of the refused. By its id, not by its place: one that was prolonged since the
    -- statement's snapshot is not found there, and would hold up the line until it lapsed.
    used as (
      delete from lease_waiter t
      where t.ticket_id = any(array(select g.lease_id from granted g))
    ),
    request as (
      insert into lease_request (principal, idempotency_key, lease_id, resource, fingerprint)
      select w.principal, w.idempotency_key, g.lease_id,
        concat_ws(chr(31), w.face, w.namespace, w.name), w.fingerprint
      from granted g
      join wanted w on w.lease_id = g.lease_id
      where w.idempotency_key is not null and not w.is_queued
      -- As whatever writes many records: two in different orders could wait for each other.
      order by w.principal ${C}, w.idempotency_key ${C}
    )
  `;
