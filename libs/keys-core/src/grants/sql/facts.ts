/** What statements write of a grant that begins or has expired: events, and callbacks that are owed. */
import { type Fragment, fragment, NO_FRAGMENT, SCOPE_NAME } from '../../postgres/sql.ts';

/** The reason in the event of a grant that ran out before its caller had confirmed it. */
const NOT_CONFIRMED = fragment`'not confirmed: its caller never began to use it'`;

/** That reason, or null for a grant that was confirmed. */
export function expiredReason(isConfirmed: Fragment): Fragment {
  return fragment`case when not ${isConfirmed} then ${NOT_CONFIRMED} end`;
}

/** For the `expired` of {@link EXPIRED_FACTS}, from the row `l` as it was. */
export const IS_CONFIRMED = fragment`
        lease_confirmed(l.renewed_at, l.expires_at) as is_confirmed`;

/** The callbacks that the rows of the statement's `expired` owe, as its `reap`. */
export const EXPIRED_CALLBACKS = fragment`
    reap as (
      insert into lease_reap (lease_id, face, namespace, name, fencing_token)
      select x.lease_id, x.face, x.namespace, x.name, x.fencing_token
      from expired x
      where x.face = 'lease' and x.is_confirmed
      on conflict (lease_id) do nothing
    )`;

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
    ${EXPIRED_CALLBACKS}`;

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
      returning l.face, l.namespace, ${SCOPE_NAME}, l.lease_id, l.fencing_token, l.expires_at, ${IS_CONFIRMED}
    ),
    ${EXPIRED_FACTS}`;

/** How the grant before a new one ended, from its row `l`; `lapsed` and `unconfirmed`: by the new one. */
export const PREVIOUS_END = fragment`
        coalesce(l.end_reason, case
          when lease_confirmed(l.renewed_at, l.expires_at) then 'lapsed' else 'unconfirmed'
        end)`;

/** What the event of a grant says of its request. */
export function grantDetail(w: Fragment): Fragment {
  // Who used it is asked together with what for, long after.
  return fragment`
          case
            when ${w}.face = 'environment' then jsonb_build_object(
              'holder', ${w}.holder, 'principal', ${w}.principal, 'action', ${w}.tag, 'comment', ${w}.comment
            )
            when ${w}.comment is not null then jsonb_build_object(
              'holder', ${w}.holder, 'principal', ${w}.principal, 'comment', ${w}.comment
            )
            else jsonb_build_object('holder', ${w}.holder, 'principal', ${w}.principal)
          end`;
}

/** {@link grantEvents} of requests that override nothing. */
export const GRANT_EVENTS = grantEvents(NO_FRAGMENT);

/**
 * What is written with every grant, from the rows of the statement's `granted` and `wanted`: its events, and
 * the callback that the grant before it owes. `more` is added to the detail of its event.
 */
function grantEvents(more: Fragment): Fragment {
  return fragment`
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
          w.actor, null, ${grantDetail(fragment`w`)}${more}
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
      -- A service that has given the id of one grant to another one, too, must not stop the grants of others.
      on conflict (lease_id) do nothing
    )`;
}

/** Those, and what becomes of the ticket and the idempotency key of its request. */
export function grantFacts(more: Fragment): Fragment {
  return fragment`${grantEvents(more)}, ${requestsEnded()}`;
}

/**
 * What becomes of the tickets and the idempotency keys of what was granted, from the rows of the statement's `granted`
 * and `wanted`. `leaseCount` is how many leases each request is for, if it is for several.
 */
export function requestsEnded(leaseCount?: number): Fragment {
  const [column, value] =
    leaseCount === undefined
      ? [NO_FRAGMENT, NO_FRAGMENT]
      : [fragment`, lease_count`, fragment`, ${leaseCount}::smallint`];
  return fragment`
    -- Taken from what was granted: a statement that deleted its ticket whatever came of it would eat
    -- the tickets of the refused. By its id, not by its place: one that was prolonged since the
    -- statement's snapshot is not found there, and would hold up the line until it lapsed.
    left_line as (
      delete from lease_waiter t
      where t.ticket_id = any(array(select g.lease_id from granted g))
    ),
    request as (
      insert into lease_request (id, lease_id, face, fingerprint${column})
      select w.request_id, g.lease_id, w.face, w.fingerprint${value}
      from granted g
      join wanted w on w.lease_id = g.lease_id
      where w.request_id is not null and not w.is_queued
      -- As whatever writes many records: two in different orders could wait for each other.
      order by w.request_id
    )`;
}
