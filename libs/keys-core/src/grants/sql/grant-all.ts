/** Grants several leases together: all of them, or none. */
import { type GrantRequest, type SlotMode } from '../../kernel/lease.ts';
import type { Resource } from '../../kernel/resource.ts';
import { isTakable } from '../../postgres/clock/expiry.ts';
import { fragment, isFound, NO_FRAGMENT, onlyRow, type Sql } from '../../postgres/sql.ts';
import { GRANT_EVENTS, requestsEnded } from './facts.ts';
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
import type { GrantOptions } from './grant.ts';
import {
  type Departure,
  IS_OF_TOTAL,
  type Leaving,
  LINE_TICKET_MS,
  type Ticket,
  type TicketRequest,
} from './line.ts';
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

/**
 * Places in the lines of several leases that are wanted together. The tickets of one request have numbers that follow
 * each other, with nobody's between them: of two requests one is before the other in every line that both are in, so
 * that they never wait for each other.
 */

/** A place in one of the lines. */
export interface Place extends Resource {
  readonly ticketId: string;
  readonly mode?: SlotMode | undefined;
}

/** A request for several leases that waits in line for all of them: its own resource and ticket are the first. */
export interface TicketsRequest extends TicketRequest {
  readonly others: readonly Place[];
}

/**
 * Takes a place in the line of each lease, or joins the places that the idempotency key has: see `joinLine`. Tickets
 * that were dropped meanwhile are made again, with the numbers that they had.
 *
 * **Index**: `lease_request_pkey`, `lease_waiter_ticket_id_key`. Undefined: the key was used, for a grant, a refusal or
 * other tickets.
 */
export async function joinLines(
  sql: Sql<'transitions'>,
  request: TicketsRequest,
): Promise<Ticket | undefined> {
  const places = [request, ...request.others];
  const ids = places.map(({ ticketId }) => ticketId);
  const rows = await sql.$queryRaw<Ticket[]>`
    with request as (
      insert into lease_request as q (id, lease_id, face, fingerprint, lease_count)
      values (
        lease_request_id(${request.principal}, ${request.idempotencyKey}), ${request.ticketId}::uuid,
        ${request.face}, ${request.fingerprint ?? null}, ${places.length}::smallint
      )
      -- The record lasts as long as the wait: it is kept for a day since its last repetition.
      on conflict (id) do update set lease_id = excluded.lease_id, created_at = clock_timestamp()
        where q.lease_id = excluded.lease_id and q.answer is null
          and coalesce(q.fingerprint = excluded.fingerprint, true)
      returning q.lease_id
    ),
    -- The first of its numbers. One that waited for the same request's tickets finds them by the conflict.
    base as materialized (
      select coalesce(
        (
          select w.id - array_position(${ids}::uuid[], w.ticket_id) + 1
          from lease_waiter w where w.ticket_id = any(${ids}::uuid[])
          limit 1
        ),
        nextval('lease_waiter_id_seq')
      ) as id
      from request
    ),
    joined as (
      insert into lease_waiter as w (
        id, face, namespace, name, ticket_id, waiter, principal, valid_until, mode
      )
      select b.id + a.place - 1, a.face, a.namespace, a.name, a.ticket_id, ${request.waiter},
        ${request.principal}, clock_timestamp() + ${LINE_TICKET_MS} * interval '1 millisecond', a.mode
      from base b
      cross join unnest(
        ${places.map(({ face }) => face)}::text[],
        ${places.map(({ namespace }) => namespace)}::text[],
        ${places.map(({ name }) => name)}::text[],
        ${ids}::uuid[],
        ${places.map(({ mode }) => mode ?? null)}::text[]
      ) with ordinality as a (face, namespace, name, ticket_id, mode, place)
      where not ${isFound(fragment`
        select true from lease_event e
        where e.lease_id = ${request.ticketId}::uuid and e.kind in ('granted', 'taken_over')`)}
      order by a.place
      on conflict (ticket_id) do update
        set valid_until = clock_timestamp() + ${LINE_TICKET_MS} * interval '1 millisecond'
      returning w.ticket_id, w.id
    )
    select j.ticket_id as "ticketId", j.id::float8 as number,
      date_part('epoch', clock_timestamp()) * 1000 as "asOf"
    from joined j
    where j.ticket_id = ${request.ticketId}::uuid`;
  return rows[0];
}

/**
 * Leaves the lines: see `leaveLine`. Locks the request, then the tickets in the order of their ids, and takes all of
 * the tickets that are there, or none. **Index**: `lease_request_pkey`, `lease_waiter_ticket_id_key`.
 * @returns what came of it; undefined if a ticket or the request is locked, and it is still there.
 */
export async function leaveLines(
  sql: Sql<'transitions'>,
  {
    ticketId,
    others,
    principal,
    idempotencyKey,
    answer,
  }: Leaving & { readonly others: readonly Place[] },
): Promise<Departure | undefined> {
  const ids = [ticketId, ...others.map((place) => place.ticketId)];
  const rows = await sql.$queryRaw<(Departure & { isThere: boolean })[]>`
    with asked as materialized (
      select a.ticket_id from unnest(${ids}::uuid[]) as a (ticket_id) order by a.ticket_id
    ),
    request as materialized (
      select q.id from lease_request q
      where q.id = lease_request_id(${principal}, ${idempotencyKey})
      for update of q skip locked
    ),
    ticket as materialized (
      select k.* from asked a
      cross join request
      cross join lateral (
        select w.ticket_id from lease_waiter w
        where w.ticket_id = a.ticket_id
        for update of w skip locked
      ) k
    ),
    there as materialized (
      select w.ticket_id from asked a
      cross join lateral (
        select w.ticket_id from lease_waiter w where w.ticket_id = a.ticket_id limit 1
      ) w
    ),
    gone as (
      delete from lease_waiter w
      where w.ticket_id = any(array(select t.ticket_id from ticket t))
        and (select count(*) from ticket) = (select count(*) from there)
      returning w.ticket_id, case when ${IS_OF_TOTAL} then w.namespace end as pool
    ),
    answered as (
      insert into lease_request as q (id, answer)
      select r.id, ${JSON.stringify(answer)}::jsonb
      from request r
      where exists (select from gone)
      on conflict (id) do update set answer = excluded.answer
        where q.answer is null
    )
    select exists (select from gone) as "hasLeft", exists (select from there) as "isThere",
      array(select distinct g.pool from gone g where g.pool is not null) as pools`;
  const { hasLeft, isThere, pools } = onlyRow(rows);
  return isThere && !hasLeft ? undefined : { hasLeft, pools };
}
