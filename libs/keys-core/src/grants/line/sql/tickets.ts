import type { Resource } from '../../../kernel/resource/resource.ts';
import type { Sql } from '../../../postgres/sql.ts';

/** How long a ticket counts without being prolonged; its waiter prolongs it at every try. */
const TICKET_MS = 2_000;

/** Takes a place in the line for a resource, or keeps it. */
export async function holdTicket(
  sql: Sql<'general'>,
  resource: Resource,
  ticket: { readonly ticketId: string; readonly waiter: string; readonly principal: string },
): Promise<void> {
  await sql.$queryRaw`
    insert into lease_waiter as w (face, namespace, name, ticket_id, waiter, principal, valid_until)
    values (
      ${resource.face}, ${resource.namespace}, ${resource.name}, ${ticket.ticketId}::uuid,
      ${ticket.waiter}, ${ticket.principal}, clock_timestamp() + ${TICKET_MS} * interval '1 millisecond'
    )
    on conflict (ticket_id) do update
    set valid_until = clock_timestamp() + ${TICKET_MS} * interval '1 millisecond'
    returning w.ticket_id::text`;
}

/** Leaves the line. Leaving twice is safe. */
export async function dropTicket(sql: Sql<'general'>, ticketId: string): Promise<void> {
  await sql.$queryRaw`delete from lease_waiter where ticket_id = ${ticketId}::uuid returning waiter`;
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
