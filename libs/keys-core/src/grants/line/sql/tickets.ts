/** Tickets of connects that wait for a key. They are counted and shown, and grant nobody a turn. */
import type { Resource } from '../../../kernel/resource/resource.ts';
import type { Sql } from '../../../postgres/sql.ts';
import { createCoalescer } from '../../transitions/coalesce.ts';

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
  /** Leaves the line. Leaving twice is safe. */
  drop(ticketId: string): Promise<void>;
}

/** Holds and drops the tickets of many callers by few statements. */
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
  const drops = createCoalescer<string, true>({
    ...common,
    run: async (ticketIds) => {
      await dropTickets(sql, ticketIds);
      return ticketIds.map(() => true);
    },
    keysOf: (ticketId) => [ticketId],
  });
  return {
    async hold(ticket) {
      await holds.submit(ticket);
    },
    async drop(ticketId) {
      await drops.submit(ticketId);
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

async function dropTickets(sql: Sql<'general'>, ticketIds: readonly string[]): Promise<void> {
  await sql.$queryRaw`
    delete from lease_waiter where ticket_id = any(${ticketIds}::uuid[]) returning waiter`;
}

/** Drops tickets that lapsed a while ago: their waiters died. @returns how many. */
export async function dropLapsedTickets(sql: Sql<'general'>, limit: number): Promise<number> {
  const rows = await sql.$queryRaw<{ waiter: string }[]>`
    delete from lease_waiter w
    using (
      select id from lease_waiter
      where valid_until < clock_timestamp() - interval '10 seconds'
      limit ${limit}
      for update skip locked
    ) old
    where w.id = old.id
    returning w.waiter`;
  return rows.length;
}
