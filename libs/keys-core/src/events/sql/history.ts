import { ASKED_EVENT_KINDS } from '../../kernel/events.ts';
import type { EventView, WaiterView } from '../../kernel/face-types.ts';
import type { Resource } from '../../kernel/resource/resource.ts';
import { C, type Sql } from '../../postgres/sql.ts';

/** An event as a history shows it; `at` is epoch milliseconds. */
export interface EventRow extends Resource, Omit<EventView, 'at' | 'datacenter' | 'face'> {
  readonly at: number;
}

/** An event, and the present database epoch, in which its id is valid. */
export interface HistoryRow extends EventRow {
  readonly epoch: number;
}

/**
 * What happened to a resource, newest first, without what a reader has to name: a client of the version
 * before does not know it. Index: `lease_event_resource_idx`.
 */
export async function readHistory(
  sql: Sql<'reads'>,
  resource: Resource,
  page: { readonly beforeId: string | null; readonly limit: number },
): Promise<HistoryRow[]> {
  return sql.$queryRaw<HistoryRow[]>`
    select v.id::text as id, coalesce((select e.epoch from database_epoch e), 0) as epoch, extract(epoch from v.at)::float8 * 1000 as at,
      v.face, v.namespace, v.name, v.lease_id as "leaseId", v.fencing_token::text as "fencingToken",
      v.kind, v.actor, v.reason, v.detail
    from lease_event v
    where v.face = ${resource.face} ${C} and v.namespace = ${resource.namespace} ${C}
      and v.name = ${resource.name} ${C}
      and v.kind <> all(${[...ASKED_EVENT_KINDS]}::text[])
      and (${page.beforeId}::bigint is null or v.id < ${page.beforeId}::bigint)
    order by v.id desc
    limit ${page.limit}`;
}

interface WaiterRow extends Omit<WaiterView, 'since'> {
  readonly id: string;
  readonly createdAt: number;
}

/** The waiters of a resource, first in line first. Index: `lease_waiter_resource_idx`. */
export async function readWaiters(
  sql: Sql<'reads'>,
  resource: Resource,
  page: { readonly afterId: string | null; readonly limit: number },
): Promise<WaiterRow[]> {
  return sql.$queryRaw<WaiterRow[]>`
    select w.id::text as id, w.ticket_id as "ticketId", w.waiter,
      extract(epoch from w.created_at)::float8 * 1000 as "createdAt",
      extract(epoch from clock_timestamp() - w.created_at)::float8 * 1000 as "waitedMs"
    from lease_waiter w
    where w.face = ${resource.face} ${C} and w.namespace = ${resource.namespace} ${C}
      and w.name = ${resource.name} ${C} and w.valid_until > clock_timestamp()
      and (${page.afterId}::bigint is null or w.id > ${page.afterId}::bigint)
    order by w.id
    limit ${page.limit}`;
}
