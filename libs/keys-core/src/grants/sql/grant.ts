import type { GrantRequest } from '../../kernel/lease/outcomes.ts';
import { fragment, isFound, NO_FRAGMENT, type Sql } from '../../postgres/sql.ts';
import { isTakable, type GrantGuard } from '../../postgres/clock/expiry.ts';
import { IS_ACTIVE_HOME, NOT_READ_BACK } from './at-home.ts';
import { GRANT_FACTS } from './parts/grant-facts.ts';
import { type Granted, grantedColumns, type GrantedRow, grantsOf } from './parts/granted-rows.ts';
import { upsertGrants } from './parts/upsert-grants.ts';
import { IS_USED, wantedRows } from './parts/wanted-rows.ts';

export interface GrantOptions {
  readonly guard: GrantGuard;
  /** What to do about a row that another transaction has locked. */
  readonly onLocked: 'skip' | 'wait';
}

/**
 * Grants each resource that is free, released, ended or expired to the caller.
 *
 * - **Locks**: only rows that it takes. A resource that is held is refused by a plain read: a
 *   refused acquire that locked the holder's row was seen to cost a third party its healthy lease.
 *   Rows are locked in the order (face, namespace, name), as in every batch statement.
 * - **Atomic because** {@link upsertGrants} judges after the row lock. What `takable` saw before is only a
 *   choice of candidates.
 * - **Index**: the primary key, for candidates and for the conflict.
 * - **In line**: nobody gets a lease while an earlier caller waits for it. A request that
 *   waits in line locks its ticket, is granted in its turn, and its ticket goes with the grant.
 *   Order of locking: ticket, then lease.
 * - **One key, one attempt**: a request whose idempotency key has been used is not granted; one that
 *   is granted records its key here. Two at once with one key: the second fails on the primary key
 *   of `lease_request`, and finds the record when it is tried again.
 * - **A request without a row in the answer** was not granted: it is held, others are before it in line, its
 *   key was used, it is not at home, or its row was locked or changed meanwhile. The caller reads which.
 *
 * A takeover of a grant that nobody has ended writes that grant's one `expired` event, and its one
 * `lease_reap` row when it is a lease: a reaper that comes later finds nothing left to do. For one that
 * was never confirmed it writes only the event.
 *
 * - **At home**: a key is granted under an active reservation, and the row remembers which. A row that
 *   was sealed by a move names another one, and nothing is granted on it. See `reservations/sql/move-away.ts`.
 *
 * `requests` must name each resource once. Most grants are made by `grant-free.ts` and do not come here.
 */
export async function grant(
  sql: Sql<'guests' | 'slowLane' | 'transitions'>,
  requests: readonly GrantRequest[],
  options: GrantOptions,
): Promise<Granted> {
  const skip = options.onLocked === 'skip' ? fragment`skip locked` : NO_FRAGMENT;
  const { belief, mark } = options.guard;
  const rows = await sql.$queryRaw<GrantedRow[]>`
    with wanted as materialized (${wantedRows(requests, mark)}),
    -- The tickets whose turn it may be. A grant that became of a ticket before is no turn of it: a
    -- replay that joins the line late must not be granted what it has held and released.
    ticket as materialized (
      select t.*
      from (select w.face, w.namespace, w.name, w.lease_id from wanted w where w.is_queued) w
      cross join lateral (
        select t.ticket_id, t.id
        from lease_waiter t
        where t.ticket_id = w.lease_id
          and t.face = w.face and t.namespace = w.namespace and t.name = w.name
          and not exists (
            select from lease_event e
            where e.lease_id = t.ticket_id and e.kind in ('granted', 'taken_over')
          )
        for update of t ${skip}
      ) t
    ),
    entitled as materialized (
      select w.*
      from wanted w
      left join ticket t on w.is_queued and t.ticket_id = w.lease_id
      where (not w.is_queued or t.ticket_id is not null)
        -- Nobody passes a live waiter who came before.
        and (w.face <> 'lease' or not ${isFound(fragment`
          select true from lease_waiter o
          where o.face = w.face and o.namespace = w.namespace and o.name = w.name
            and o.valid_until > clock_timestamp() and (t.id is null or o.id < t.id)`)})
        and (w.home_reservation is null or (${IS_ACTIVE_HOME} and not exists (${NOT_READ_BACK})))
        and (w.is_queued or w.idempotency_key is null or not ${IS_USED})
    ),
    -- Row by row in the order of locking: lateral, so that however large the table is, each resource
    -- is one probe of the primary key.
    takable as materialized (
      select w.lease_id as wanted_id, t.lease_id, t.ended_at
      from (
        select w.lease_id, w.face, w.namespace, w.name, w.home_reservation
        from entitled w order by w.face, w.namespace, w.name
      ) w
      cross join lateral (
        select l.lease_id,
          -- When a revocation by force was, only its event says.
          case
            when l.released_at is not null then l.released_at
            when l.end_reason is null or l.end_reason = 'expired' then l.expires_at
          end as ended_at
        from lease l
        where l.face = w.face and l.namespace = w.namespace and l.name = w.name
          and ${isTakable(belief)}
          and (l.home_reservation is null or l.home_reservation = w.home_reservation)
        for update of l ${skip}
      ) t
    ),
    candidate as (
      select w.*
      from entitled w
      left join lateral (
        select true as is_known from lease l
        where l.face = w.face and l.namespace = w.namespace and l.name = w.name
        limit 1
      ) k on true
      where k.is_known is null
      union all
      -- A full join, as in the statement for free rows: an inner one compared a hundred with a hundred.
      select w.* from entitled w
      full join takable t on t.wanted_id = w.lease_id
      where coalesce(t.wanted_id is not null, false)
    ),
    ${upsertGrants(isTakable(belief))},
    ${GRANT_FACTS}
    select ${grantedColumns(fragment`t.ended_at`)}
    from granted g
    left join takable t on t.lease_id = g.previous_lease_id`;
  return grantsOf(rows, requests);
}
