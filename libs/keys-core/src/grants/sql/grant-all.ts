/** Grants several leases together: all of them, or none. */
import type { GrantRequest } from '../../kernel/lease.ts';
import { isTakable } from '../../postgres/clock/expiry.ts';
import { fragment, isFound, NO_FRAGMENT, type Sql } from '../../postgres/sql.ts';
import { GRANT_EVENTS, requestsEnded } from './facts.ts';
import type { GrantOptions } from './grant.ts';
import {
  ENDED_AT,
  type Granted,
  grantedColumns,
  type GrantedRow,
  grantsOf,
  HAS_PERMITS,
  IS_USED,
  lockedTickets,
  wantedRows,
} from './grant-rows.ts';
import { upsertGrants } from './upsert-grants.ts';

/** SQLSTATE of a statement that has taken some of the leases, and so takes none: a division by zero. */
export const NOT_ALL = '22012';

/**
 * Grants the leases of one request if each of them is free and it is the request's turn in the line of each.
 * Otherwise it grants none and changes nothing.
 *
 * - **All or none**: a lease is a candidate only if all are. One that was changed since it was seen is not taken by
 *   {@link upsertGrants}; then the statement has taken some, and fails as a whole, with {@link NOT_ALL}.
 * - **Locks** as `grant` does, and in its order: the tickets, then the rows, by (face, namespace, name). It locks no
 *   row before all tickets are first in their lines.
 * - **In line**: nobody is passed who came before, in any of the lines.
 * - **One key, one attempt**: only the first request carries the idempotency key, and the record says how many
 *   leases follow.
 * - **Index**: the primary keys, `lease_waiter_ticket_id_key`, `lease_waiter_resource_idx`.
 *
 * `requests` are of the leases face, and name each lease once; `leaseCount` is how many leases the request is for, if
 * there are slots of pools besides. No grant in the answer: the caller reads why.
 */
export async function grantAll(
  sql: Sql<'guests' | 'slowLane' | 'transitions'>,
  requests: readonly GrantRequest[],
  {
    guard: { belief, mark },
    onLocked,
    leaseCount,
  }: GrantOptions & { readonly leaseCount?: number },
): Promise<Granted> {
  const skip = onLocked === 'skip' ? fragment`skip locked` : NO_FRAGMENT;
  const count = requests.length;
  const rows = await sql.$queryRaw<GrantedRow[]>`
    with wanted as materialized (${wantedRows(requests, mark)}),
    ${lockedTickets(skip, fragment`order by w.lease_id`)},
    entitled as materialized (
      select w.*
      from wanted w
      left join ticket t on w.is_queued and t.ticket_id = w.lease_id
      where (not w.is_queued or t.ticket_id is not null)
        -- Nobody passes a live waiter who came before.
        and not ${isFound(fragment`
          select true from lease_waiter o
          where o.face = w.face and o.namespace = w.namespace and o.name = w.name
            and o.valid_until > clock_timestamp() and (t.id is null or o.id < t.id)`)}
        and not ${HAS_PERMITS}
        and (w.is_queued or w.request_id is null or not ${IS_USED})
    ),
    takable as materialized (
      select w.lease_id as wanted_id, t.lease_id, t.ended_at
      from (
        select w.lease_id, w.face, w.namespace, w.name from entitled w
        where (select count(*) from entitled) = ${count}
        order by w.face, w.namespace, w.name
      ) w
      cross join lateral (
        select l.lease_id,
          ${ENDED_AT} as ended_at
        from lease l
        where l.face = w.face and l.namespace = w.namespace and l.name = w.name
          and ${isTakable(belief)}
          and l.home_reservation is null
        for update of l ${skip}
      ) t
    ),
    free as materialized (
      select w.lease_id
      from entitled w
      left join lateral (
        select true as is_known from lease l
        where l.face = w.face and l.namespace = w.namespace and l.name = w.name
        limit 1
      ) k on true
      where k.is_known is null
      union all
      select t.wanted_id from takable t
    ),
    candidate as (
      select w.* from entitled w where (select count(*) from free) = ${count}
    ),
    ${upsertGrants(isTakable(belief))},
    ${GRANT_EVENTS},
    ${requestsEnded(leaseCount ?? count)}
    select ${grantedColumns(fragment`t.ended_at`)},
      -- Some without the others is a division by zero.
      1 / ((select count(*) from granted) = ${count})::int as "isAll"
    from granted g
    left join takable t on t.lease_id = g.previous_lease_id`;
  return grantsOf(rows, requests);
}
