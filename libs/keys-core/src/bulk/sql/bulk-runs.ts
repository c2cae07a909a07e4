/**
 * The statements of a controller that carries out a bulk action.
 *
 * The bulk action goes on only while its starter may still do it; this is checked before every page.
 *
 * The controller has the lease of the bulk action. When it dies, another one takes over after that
 * lease has expired. An act that was under way when the lease was lost does no harm beside a successor:
 * an act concerns one grant, repeating it changes nothing, and each item is recorded once.
 *
 * An act and its record are two transactions. A controller that died between them left an act without a
 * record, which the next one finds by its event: of this grant, by this actor, for this reason, since
 * the bulk action was started. Only then is it recorded as done.
 */
import type { Resource } from '../../kernel/resource.ts';
import type { BulkAction } from '../../kernel/face-types.ts';
import { IS_AT_WORK, RUNNING_BULKS_MAX, type BulkOrder } from './bulk-requests.ts';
import { readClock, type RecordSql } from '../../postgres/records.ts';
import type { Sql } from '../../postgres/sql.ts';

/** The events that the acts write. */
const EVENT_OF_ACTION: Record<BulkAction, string> = {
  revoke: 'revoked',
  blockRenewal: 'renewal_blocked',
  allowRenewal: 'renewal_allowed',
};

/** Why a bulk action is not carried out any further, as the audit records it. */
const WHY_ENDED = 'The person who started it may not do this any more.';

/** Bulk actions without a controller, oldest first. Indexes: `bulk_running_idx`, {@link IS_AT_WORK}. */
export function readOpenBulks(sql: Sql<'general'>): Promise<BulkOrder[]> {
  return sql.$queryRaw<BulkOrder[]>`
    select b.id as "bulkId", b.action, b.mode, b.reason, b.actor, b.principal, b.role, b.source,
      b.namespaces
    from bulk b
    where b.state = 'running' and not ${IS_AT_WORK}
    order by b.started_at
    limit ${RUNNING_BULKS_MAX}`;
}

/**
 * Whether it goes on. It is aborted, with its audit entry, when its starter is unknown or disabled, is
 * no operator or admin any more, or came with a token that is not in force or is limited to namespaces.
 * Indexes: the primary keys of `bulk`, `person` and `api_token`.
 */
export async function mayGoOn(sql: Sql<'general'>, bulkId: string): Promise<boolean> {
  const rows = await sql.$queryRaw<{ isKept: boolean }[]>`
    with judged as materialized (
      select b.id, case
          when p.id is null and t.id is null then 'unknown'
          when p.disabled_at is not null then 'disabled'
          when t.revoked_at is not null then 'revoked'
          when t.expires_at <= clock_timestamp() then 'expired'
          when coalesce(p.role, t.role) not in ('operator', 'admin') then 'role'
          when t.namespaces <> '{}' then 'limited'
        end as cause
      from bulk b
      left join person p on p.id = case
        when b.principal ~ '^person:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
        then substr(b.principal, 8)::uuid end
      left join api_token t on t.id = case
        when b.principal ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
        then b.principal::uuid end
      where b.id = ${bulkId}::uuid and b.state = 'running'
    ),
    aborted as (
      update bulk b
      set state = 'aborted', ended_at = clock_timestamp()
      from judged j
      where b.id = j.id and b.state = 'running' and j.cause is not null
      returning b.id, b.done_count, b.total, b.actor, j.cause
    ),
    audited as (
      insert into audit (actor, role, action, resource, reason, detail)
      select 'controller', 'none', 'bulk.abort', 'bulk:' || a.id, ${WHY_ENDED},
        jsonb_build_object('done', a.done_count, 'total', a.total, 'startedBy', a.actor,
          'cause', a.cause)
      from aborted a
    )
    select j.cause is null as "isKept" from judged j`;
  return rows[0]?.isKept ?? false;
}

/** Ends a bulk action that has no open items, whichever controller finds out. */
export async function finishBulk(sql: RecordSql, bulkId: string): Promise<void> {
  await sql.records.bulk.updateMany({
    where: { id: bulkId, state: 'running', items: { none: { doneAt: null } } },
    data: { state: 'done', endedAt: await readClock(sql) },
  });
}

/** An item that has not been carried out, and its grant at this moment. */
export interface OpenItem {
  readonly place: number;
  readonly leaseId: string;
  /** Null when no row has this lease id any more. */
  readonly resource: Resource | null;
  /** Whether the very grant that was chosen is in force: its id, and its token. */
  readonly isInForce: boolean;
  readonly isRenewable: boolean;
  /** Whether this bulk action has acted on it, and died before that was recorded. */
  readonly isActedOn: boolean;
}

/**
 * The next items from a place on. Index: `bulk_item_open_idx`, and for each item `lease_lease_id_key`
 * and `lease_event_lease_id_idx`. Locks nothing: each act checks its grant again.
 */
export async function readOpenItems(
  sql: Sql<'general'>,
  order: BulkOrder,
  from: { readonly place: number; readonly limit: number },
): Promise<OpenItem[]> {
  const rows = await sql.$queryRaw<
    (Omit<OpenItem, 'resource'> & { [K in keyof Resource]: Resource[K] | null })[]
  >`
    select i.place, i.lease_id as "leaseId", coalesce(l.face, a.face) as face,
      coalesce(l.namespace, a.namespace) as namespace, coalesce(l.name, a.name) as name,
      coalesce(
        l.fencing_token = i.fencing_token
          and lease_unexpired(l.released_at, l.end_reason, l.expires_at),
        false
      ) as "isInForce",
      coalesce(l.renewable, false) as "isRenewable",
      a.face is not null as "isActedOn"
    from (
      select i.place, i.lease_id, i.fencing_token, b.started_at
      from bulk_item i
      join bulk b on b.id = i.bulk_id
      where i.bulk_id = ${order.bulkId}::uuid and i.done_at is null and i.place >= ${from.place}::int
      order by i.place
      limit ${from.limit}
    ) i
    left join lease l on l.lease_id = i.lease_id
    left join lateral (
      select e.face, e.namespace, e.name
      from lease_event e
      where e.lease_id = i.lease_id and e.at >= i.started_at
        and e.kind = ${EVENT_OF_ACTION[order.action]} and e.actor = ${order.actor}
        and e.reason = ${order.reason}
        and (${order.mode}::text is null or e.detail ->> 'mode' = ${order.mode}::text)
      limit 1
    ) a on true
    order by i.place`;
  return rows.map(({ face, namespace, name, ...item }) => ({
    ...item,
    resource:
      face === null || namespace === null || name === null ? null : { face, namespace, name },
  }));
}

/** The outcome of an item. */
export interface ItemOutcome {
  readonly place: number;
  /** Why it failed; null when it is done. */
  readonly code: string | null;
}

/**
 * Records the outcomes of items, each once, and counts them. The audit has one entry for all of them: that of the
 * start. What was done to each grant is here, and in its events.
 *
 * **Locks** the items in the order of their places, then the bulk action. **Atomic because** it is one
 * statement, whose counts grow by what it has recorded. An item that was recorded before is left as
 * it is. Also after an abort: what was done stays done.
 */
export async function recordItems(
  sql: Sql<'general'>,
  bulkId: string,
  outcomes: readonly ItemOutcome[],
): Promise<void> {
  await sql.$queryRaw<{ id: string }[]>`
    with said as materialized (
      select s.place, s.code
      from unnest(
        ${outcomes.map(({ place }) => place)}::int[],
        ${outcomes.map(({ code }) => code)}::text[]
      ) as s (place, code)
    ),
    open as materialized (
      select i.place
      from bulk_item i
      where i.bulk_id = ${bulkId}::uuid and i.done_at is null
        and i.place in (select s.place from said s)
      order by i.place
      for update of i
    ),
    recorded as (
      update bulk_item i
      set done_at = clock_timestamp(), code = s.code
      from open o
      join said s on s.place = o.place
      where i.bulk_id = ${bulkId}::uuid and i.place = o.place
      returning i.code
    )
    update bulk b
    set done_count = b.done_count + n.done, failed_count = b.failed_count + n.failed
    from (select count(*)::int as done, count(r.code)::int as failed from recorded r) n
    where b.id = ${bulkId}::uuid
    returning b.id`;
}
