/**
 * Places in the lines of several leases that are wanted together. The tickets of one request have numbers that follow
 * each other, with nobody's between them: of two requests one is before the other in every line that both are in, so
 * that they never wait for each other.
 */
import type { Resource } from '../../kernel/resource.ts';
import { fragment, isFound, onlyRow, type Sql } from '../../postgres/sql.ts';
import type { SlotMode } from '../../kernel/pool.ts';
import {
  type Departure,
  IS_OF_TOTAL,
  type Leaving,
  LINE_TICKET_MS,
  type Ticket,
  type TicketRequest,
} from './line.ts';

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
      on conflict (id) do update set lease_id = excluded.lease_id
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
