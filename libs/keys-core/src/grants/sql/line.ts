/**
 * Tickets of callers that wait in line for a lease. The ticket numbers give the order; a
 * ticket that is not prolonged lapses and is passed over. A ticket's id is the lease id of the grant
 * that it will become, so that a replay of its request finds either.
 */
import type { SlotMode } from '../../kernel/lease.ts';
import type { Resource } from '../../kernel/resource.ts';
import { C, fragment, isFound, type Sql } from '../../postgres/sql.ts';
import { createCoalescer } from '../coalesce.ts';

/** How long a ticket for a lease counts without being prolonged. */
export const LINE_TICKET_MS = 500;
/**
 * How long one for an environment does: its caller may connect again, or its controller start again, without losing
 * its turn. A caller that is gone keeps those behind it waiting for no longer.
 */
export const ENVIRONMENT_TICKET_MS = 30_000;
/** It is prolonged when this much is used up: those who wait for days cost few writes. */
const ENVIRONMENT_TICKET_USED_MS = 5_000;

export interface TicketRequest extends Resource {
  readonly ticketId: string;
  readonly waiter: string;
  readonly principal: string;
  readonly idempotencyKey: string;
  readonly fingerprint?: string | undefined;
  /** How it wants to hold a pool; undefined for a lease that one holds at a time. */
  readonly mode?: SlotMode | undefined;
}

/** A place in line. */
export interface Ticket {
  readonly ticketId: string;
  /** Its number: a smaller one came before. */
  readonly number: number;
  /** When the line was joined, or joined again, as epoch milliseconds of the database. */
  readonly asOf: number;
}

/**
 * Takes a place in line for each request, or joins the one that its idempotency key has.
 *
 * A statement of its own, committed before anybody checks whose turn it is. The request's record is
 * written with the ticket, so that a replay finds it. **Index**: `lease_request_pkey`,
 * `lease_waiter_ticket_id_key`. A request without a ticket in the answer has a key that was used, for a
 * grant, a refusal or another ticket.
 */
export async function joinLine(
  sql: Sql<'transitions'>,
  requests: readonly TicketRequest[],
): Promise<Map<string, Ticket>> {
  const rows = await sql.$queryRaw<Ticket[]>`
    with asked as materialized (
      select a.face ${C} as face, a.namespace ${C} as namespace, a.name ${C} as name, a.ticket_id,
        a.waiter, a.principal, lease_request_id(a.principal, a.idempotency_key) as request_id,
        a.fingerprint, a.mode, a.place
      from unnest(
        ${requests.map((request) => request.face)}::text[],
        ${requests.map((request) => request.namespace)}::text[],
        ${requests.map((request) => request.name)}::text[],
        ${requests.map((request) => request.ticketId)}::uuid[],
        ${requests.map((request) => request.waiter)}::text[],
        ${requests.map((request) => request.principal)}::text[],
        ${requests.map((request) => request.idempotencyKey)}::text[],
        ${requests.map((request) => request.fingerprint ?? null)}::text[],
        ${requests.map((request) => request.mode ?? null)}::text[]
      ) with ordinality as a (
        face, namespace, name, ticket_id, waiter, principal, idempotency_key, fingerprint, mode, place
      )
    ),
    request as (
      insert into lease_request as q (id, lease_id, face, fingerprint)
      select a.request_id, a.ticket_id, a.face, a.fingerprint
      from asked a
      order by a.request_id
      -- The record lasts as long as the wait: it is kept for a day since its last repetition.
      on conflict (id) do update set lease_id = excluded.lease_id, created_at = clock_timestamp()
        where q.lease_id = excluded.lease_id and q.answer is null
          and coalesce(q.fingerprint = excluded.fingerprint, true)
      returning q.lease_id
    )
    insert into lease_waiter as w (
      face, namespace, name, ticket_id, waiter, principal, valid_until, mode
    )
    select a.face, a.namespace, a.name, a.ticket_id, a.waiter, a.principal,
      clock_timestamp() + ${LINE_TICKET_MS} * interval '1 millisecond', a.mode
    from asked a
    join request q on q.lease_id = a.ticket_id
    where not ${isFound(fragment`
      select true from lease_event e
      where e.lease_id = a.ticket_id and e.kind in ('granted', 'taken_over')`)}
    order by a.place
    on conflict (ticket_id) do update
      set valid_until = clock_timestamp() + ${LINE_TICKET_MS} * interval '1 millisecond'
    returning w.ticket_id as "ticketId", w.id::float8 as number,
      date_part('epoch', clock_timestamp()) * 1000 as "asOf"`;
  return new Map(rows.map((row) => [row.ticketId, row]));
}

/**
 * Lets tickets count for another {@link LINE_TICKET_MS}, or {@link ENVIRONMENT_TICKET_MS}. Skips those that are locked: they are being
 * granted or given up. HOT: no index has a column that changes.
 * @returns the ids of those that no longer exist.
 */
export async function prolongTickets(
  sql: Sql<'renewals'>,
  ticketIds: readonly string[],
): Promise<string[]> {
  const rows = await sql.$queryRaw<{ ticketId: string }[]>`
    with asked as materialized (select a.ticket_id from unnest(${ticketIds}::uuid[]) as a (ticket_id)),
    locked as materialized (
      select k.* from asked a
      cross join lateral (
        select w.ctid as row_at, w.ticket_id from lease_waiter w
        where w.ticket_id = a.ticket_id
          and (w.face <> 'environment' or w.valid_until < clock_timestamp()
            + ${ENVIRONMENT_TICKET_MS - ENVIRONMENT_TICKET_USED_MS} * interval '1 millisecond')
        for no key update of w skip locked
      ) k
    ),
    prolonged as (
      update lease_waiter w
      set valid_until = clock_timestamp() + interval '1 millisecond'
        * case when w.face = 'environment' then ${ENVIRONMENT_TICKET_MS}::int else ${LINE_TICKET_MS}::int end
      from locked k
      where w.ctid = k.row_at
    )
    select a.ticket_id as "ticketId"
    from asked a
    where not ${isFound(fragment`select true from lease_waiter w where w.ticket_id = a.ticket_id`)}`;
  return rows.map((row) => row.ticketId);
}

/** A ticket whose caller leaves the line, with the answer that every replay of the request gets from now on. */
export interface Leaving extends Pick<TicketRequest, 'ticketId' | 'principal' | 'idempotencyKey'> {
  readonly answer: object;
}

/** What came of leaving the line. */
export interface Departure {
  readonly hasLeft: boolean;
  /** The namespaces of its leases in which all keys have a limit together: those who wait for others may have their turn. */
  readonly pools: readonly string[];
}

/** Whether all keys of the namespace of a ticket `w` have a limit together. */
export const IS_OF_TOTAL = isFound(fragment`
  select true from lease_declaration d
  where w.face = 'lease' and d.namespace = w.namespace and d.permits_total is not null`);

/**
 * Leaves the line with an answer, for many. Locks the requests in the order of their keys, then the tickets, as
 * giving up a request does, and skips what is locked. **Index**: `lease_request_pkey`,
 * `lease_waiter_ticket_id_key`.
 * @returns for each in order what came of it; undefined if it is locked, and still there. It has not
 * left if its ticket was granted, given up, or had lapsed long ago.
 */
export async function leaveLine(
  sql: Sql<'transitions'>,
  leavings: readonly Leaving[],
): Promise<(Departure | undefined)[]> {
  const rows = await sql.$queryRaw<(Departure & { ticketId: string })[]>`
    with asked as materialized (
      select a.ticket_id, lease_request_id(a.principal, a.idempotency_key) as request_id, a.answer
      from unnest(
        ${leavings.map(({ ticketId }) => ticketId)}::uuid[],
        ${leavings.map(({ principal }) => principal)}::text[],
        ${leavings.map(({ idempotencyKey }) => idempotencyKey)}::text[],
        ${leavings.map(({ answer }) => JSON.stringify(answer))}::text[]
      ) as a (ticket_id, principal, idempotency_key, answer)
    ),
    request as materialized (
      select k.* from (select a.* from asked a order by a.request_id) a
      cross join lateral (
        select q.id, a.ticket_id, a.answer from lease_request q
        where q.id = a.request_id
        for update of q skip locked
      ) k
    ),
    ticket as materialized (
      select k.* from request q
      cross join lateral (
        select w.ticket_id from lease_waiter w
        where w.ticket_id = q.ticket_id
        for update of w skip locked
      ) k
    ),
    gone as (
      delete from lease_waiter w
      where w.ticket_id = any(array(select t.ticket_id from ticket t))
      returning w.ticket_id, case when ${IS_OF_TOTAL} then array[w.namespace] end as pools
    ),
    -- The rows are there, and locked: a conflict finds each by its key, whatever has changed it meanwhile.
    answered as (
      insert into lease_request as q (id, answer)
      select r.id, r.answer::jsonb
      from request r
      join gone g on g.ticket_id = r.ticket_id
      on conflict (id) do update set answer = excluded.answer
        where q.answer is null
    )
    select a.ticket_id as "ticketId", g.ticket_id is not null as "hasLeft",
      coalesce(g.pools, '{}') as pools
    from asked a
    left join gone g on g.ticket_id = a.ticket_id
    where g.ticket_id is not null or ${isFound(fragment`
      select true from lease_waiter w where w.ticket_id = a.ticket_id`)}`;
  const there = new Map(rows.map((row) => [row.ticketId, row]));
  return leavings.map(({ ticketId }) => {
    const row = there.get(ticketId);
    if (row?.hasLeft === false) return undefined;
    return { hasLeft: row !== undefined, pools: row?.pools ?? [] };
  });
}

/**
 * Drops the tickets of a request that has been granted: a replay that joined the line while the grant
 * was under way has made them again. After {@link joinLine}, which has waited for that grant.
 * @returns whether there were any.
 */
export async function dropGrantedTickets(
  sql: Sql<'transitions'>,
  ticketIds: readonly string[],
): Promise<boolean> {
  const rows = await sql.$queryRaw<{ ticketId: string }[]>`
    delete from lease_waiter w
    where w.ticket_id = any(${ticketIds}::uuid[]) and exists (
      select from lease_event e where e.lease_id = w.ticket_id and e.kind in ('granted', 'taken_over')
    )
    returning w.ticket_id as "ticketId"`;
  return rows.length > 0;
}

/** How long a ticket counts without being prolonged; its waiter prolongs it at every try. */
const TICKET_MS = 2_000;
const TICKETS_PER_STATEMENT_MAX = 500;
const STATEMENTS_IN_FLIGHT_MAX = 2;
const QUEUE_MAX = 50_000;

/** A place in the line for a resource. */
interface HeldTicket extends Resource {
  readonly ticketId: string;
  readonly waiter: string;
  readonly principal: string;
}

export interface Tickets {
  /** Takes a place, or keeps it. */
  hold(ticket: HeldTicket): Promise<void>;
  /** Leaves the line, and records the wait. Leaving twice is safe. */
  drop(left: LeftTicket): Promise<void>;
}

/** A ticket whose connect is answered. */
interface LeftTicket {
  readonly ticketId: string;
  readonly outcome: 'granted' | 'gave_up';
}

/**
 * Holds and drops the tickets of many connects that wait for a key, by few statements. These tickets are
 * counted and shown, and grant nobody a turn.
 */
export function createTickets(sql: Sql<'general'>): Tickets {
  const common = {
    batchSizeMax: TICKETS_PER_STATEMENT_MAX,
    inFlightMax: STATEMENTS_IN_FLIGHT_MAX,
    queueMax: QUEUE_MAX,
    isGathering: true,
  };
  const holds = createCoalescer<HeldTicket, true>({
    ...common,
    run: async (tickets) => {
      await holdTickets(sql, tickets);
      return tickets.map(() => true);
    },
    keysOf: ({ ticketId }) => [ticketId],
  });
  const drops = createCoalescer<LeftTicket, true>({
    ...common,
    run: async (left) => {
      await dropTickets(sql, left);
      return left.map(() => true);
    },
    keysOf: ({ ticketId }) => [ticketId],
  });
  return {
    async hold(ticket) {
      await holds.submit(ticket);
    },
    async drop(left) {
      await drops.submit(left);
    },
  };
}

async function holdTickets(sql: Sql<'general'>, tickets: readonly HeldTicket[]): Promise<void> {
  await sql.$queryRaw`
    insert into lease_waiter as w (face, namespace, name, ticket_id, waiter, principal, valid_until)
    select a.face, a.namespace, a.name, a.ticket_id, a.waiter, a.principal,
      clock_timestamp() + ${TICKET_MS} * interval '1 millisecond'
    from unnest(
      ${tickets.map((ticket) => ticket.face)}::text[],
      ${tickets.map((ticket) => ticket.namespace)}::text[],
      ${tickets.map((ticket) => ticket.name)}::text[],
      ${tickets.map((ticket) => ticket.ticketId)}::uuid[],
      ${tickets.map((ticket) => ticket.waiter)}::text[],
      ${tickets.map((ticket) => ticket.principal)}::text[]
    ) with ordinality as a (face, namespace, name, ticket_id, waiter, principal, place)
    order by a.place
    on conflict (ticket_id) do update
    set valid_until = clock_timestamp() + ${TICKET_MS} * interval '1 millisecond'
    returning w.ticket_id::text`;
}

/**
 * Only its connect knows what became of a wait for a key: a ticket is no grant. It ended with the grant, if there was one,
 * and not when its caller was told. The trigger records the waits of other tickets. Index: `lease_pkey`.
 */
async function dropTickets(sql: Sql<'general'>, left: readonly LeftTicket[]): Promise<void> {
  const ticketIds = left.map(({ ticketId }) => ticketId);
  await sql.$queryRaw`
    with gone as (
      delete from lease_waiter w where w.ticket_id = any(${ticketIds}::uuid[]) returning w.*
    )
    insert into lease_wait (face, namespace, name, ended_at, ticket_id, began_at, waiter, outcome)
    select g.face, g.namespace, g.name, coalesce(granted.at, clock_timestamp()), g.ticket_id, g.created_at, g.waiter,
      a.outcome
    from gone g
    join unnest(${ticketIds}::uuid[], ${left.map(({ outcome }) => outcome)}::text[])
      as a (ticket_id, outcome) on a.ticket_id = g.ticket_id
    left join lateral (
      select l.granted_at as at from lease l
      where a.outcome = 'granted' and l.face = g.face and l.namespace = g.namespace and l.name = g.name
        and l.granted_at > g.created_at
      limit 1
    ) granted on true
    on conflict do nothing
    returning waiter`;
}

/**
 * Drops tickets that lapsed a while ago: their waiters died. One for an environment is kept as long as the record of its
 * request: a newer request that supersedes it finds it, so that it does not come after that one if it returns.
 * @returns how many.
 */
export async function dropLapsedTickets(sql: Sql<'general'>, limit: number): Promise<number> {
  const rows = await sql.$queryRaw<{ waiter: string }[]>`
    with gone as (
      delete from lease_waiter w
      using (
        select id from lease_waiter
        where valid_until < clock_timestamp() - case face
          when 'environment' then interval '24 hours' else interval '10 seconds' end
        limit ${limit}
        for update skip locked
      ) old
      where w.id = old.id
      returning w.*
    ),
    -- The others are recorded by the trigger.
    of_keys as (
      insert into lease_wait (face, namespace, name, ended_at, ticket_id, began_at, waiter, outcome)
      select g.face, g.namespace, g.name, g.valid_until, g.ticket_id, g.created_at, g.waiter, 'lapsed'
      from gone g
      where g.face = 'key'
      on conflict do nothing
    )
    select g.waiter from gone g`;
  return rows.length;
}
