/** Requests for bulk actions: recorded with their items, read with their progress, aborted. */
import { writeAudit } from '../access/index.ts';
import type { BulkAction } from '../kernel/face-types.ts';
import type { GrantRef } from '../kernel/lease.ts';
import { RESERVED_NAMESPACE, type Resource } from '../kernel/resource.ts';
import { readClock, type RecordPool, type RecordSql } from '../postgres/records.ts';
import { removeOld, type RetentionPass } from '../postgres/retention-pass.ts';
import { type Dated, fragment, isoOf, type Sql } from '../postgres/sql.ts';
import type { BulkItemView, BulkPreview, BulkProgress } from './bulk-types.ts';

/** A bulk action as it was asked for, and by whom. */
export interface BulkOrder {
  readonly bulkId: string;
  readonly action: BulkAction;
  /** Of a revocation; null for other actions. */
  readonly mode: 'graceful' | 'force' | null;
  readonly reason: string;
  readonly actor: string;
  readonly principal: string;
  readonly role: string;
  readonly source: string | null;
  readonly namespaces: readonly string[] | null;
}

/** How far a bulk action has come. */
export type BulkState = BulkProgress & {
  /** Whether a controller is at work on it: one that was aborted may still have acts under way. */
  readonly isAtWork: boolean;
};

/** Failures that are listed one by one; all of them are counted. */
const BULK_FAILURES_SHOWN_MAX = 1_000;
/** How long a new bulk action that no controller has yet counts as running, not as interrupted. */
const BEGINNING_MS_MAX = 5_000;
/** Bulk actions that are not over, at all controllers. */
export const RUNNING_BULKS_MAX = 10;
/** The first half of an advisory lock's key; the second is the schema. The lock makes starts take turns. */
const START_LOCK = 4_600_002;

/** The lease of the controller that carries a bulk action out, in the namespace of Leasehold. */
export function bulkLeaseName(bulkId: string): string {
  return `bulk:${bulkId}`;
}

/** Whether a controller has the lease of the bulk action `b`. Index: `lease_pkey`. */
export const IS_AT_WORK = fragment`exists (
    select from lease l
    where l.face = 'lease' and l.namespace = ${RESERVED_NAMESPACE} and l.name = 'bulk:' || b.id
      and lease_unexpired(l.released_at, l.end_reason, l.expires_at)
  )`;

/**
 * Records a bulk action with all its items and its audit entry. @returns whether it did; it does not
 * while ten are running.
 *
 * The count is exact because starts take turns, by a lock that ends with the transaction. Index:
 * `bulk_running_idx`.
 */
export async function startBulk(
  general: RecordPool,
  order: BulkOrder & { readonly items: readonly GrantRef[] },
): Promise<boolean> {
  const isFull = async ({ records }: RecordSql): Promise<boolean> =>
    (await records.bulk.count({ where: { state: 'running' } })) >= RUNNING_BULKS_MAX;
  // Those that are refused need no turn, and nobody keeps the turn while the client of records is loaded.
  if (await isFull(general)) return false;
  return general.$transaction(async (tx) => {
    await tx.$queryRaw`select pg_advisory_xact_lock(${START_LOCK}::int, hashtext(current_schema()))::text`;
    if (await isFull(tx)) return false;
    const { bulkId: id, action, mode, reason, actor, principal, role, source } = order;
    const { namespaces, items } = order;
    const total = items.length;
    await tx.records.bulk.createMany({
      data: {
        id,
        action,
        mode,
        reason,
        actor,
        principal,
        role,
        source,
        total,
        ...(namespaces === null ? {} : { namespaces: [...namespaces] }),
      },
    });
    await insertItems(tx, id, items);
    await writeAudit(tx, {
      actor,
      role,
      source,
      reason,
      action: 'bulk.start',
      resource: `bulk:${id}`,
      detail: { action, ...(mode === null ? {} : { mode }), total },
    });
    return true;
  });
}

/** One statement for all of them, of which there may be thousands. */
async function insertItems(
  sql: Sql<'general'>,
  bulkId: string,
  items: readonly GrantRef[],
): Promise<void> {
  await sql.$queryRaw`
    insert into bulk_item (bulk_id, place, lease_id, fencing_token)
    select ${bulkId}::uuid, i.place, i.lease_id, i.fencing_token
    from unnest(
      ${items.map((item) => item.leaseId)}::uuid[],
      ${items.map((item) => item.fencingToken)}::bigint[]
    ) with ordinality as i (lease_id, fencing_token, place)`;
}

/**
 * Ends a bulk action that is not over, with its audit entry; what was done stays done.
 * @returns whether it was changed; undefined when it does not exist.
 */
export async function abortBulk(
  general: RecordPool,
  bulkId: string,
  by: { readonly actor: string; readonly role: string; readonly source: string | null },
): Promise<boolean | undefined> {
  return general.$transaction(async (tx) => {
    const { bulk } = tx.records;
    const [aborted] = await bulk.updateManyAndReturn({
      where: { id: bulkId, state: 'running' },
      data: { state: 'aborted', endedAt: await readClock(tx) },
      select: { doneCount: true, total: true },
    });
    if (aborted === undefined) {
      return (await bulk.findUnique({ where: { id: bulkId } })) === null ? undefined : false;
    }
    const { actor, role, source } = by;
    await writeAudit(tx, {
      actor,
      role,
      source,
      action: 'bulk.abort',
      resource: `bulk:${bulkId}`,
      detail: { done: aborted.doneCount, total: aborted.total },
    });
    return true;
  });
}

type BulkRow = Omit<BulkState, 'startedAt' | 'failed' | 'stopping' | 'stopsBy'> & {
  readonly startedAt: number;
};

/** A bulk action's progress; undefined if it does not exist. Index: the primary keys, {@link IS_AT_WORK}. */
export async function readBulk(sql: Sql<'reads'>, bulkId: string): Promise<BulkState | undefined> {
  const [row] = await sql.$queryRaw<BulkRow[]>`
    select b.id as "bulkId", b.action, b.mode, b.reason, b.actor,
      extract(epoch from b.started_at)::float8 * 1000 as "startedAt",
      case
        when b.state = 'running' and not b.at_work
          and b.started_at < clock_timestamp() - ${BEGINNING_MS_MAX} * interval '1 millisecond'
        then 'interrupted'
        else b.state
      end as state,
      b.total, b.done_count as done, b.failed_count as "failedCount", b.at_work as "isAtWork"
    from (select b.*, ${IS_AT_WORK} as at_work from bulk b) b
    where b.id = ${bulkId}::uuid`;
  if (row === undefined) return undefined;
  const failed = row.failedCount === 0 ? [] : await readFailures(sql, bulkId);
  const isStoppable = row.action === 'revoke' && row.done > row.failedCount;
  const stopping = isStoppable ? await readStopping(sql, bulkId) : NONE_STOPPING;
  return { ...row, startedAt: isoOf(row.startedAt), failed, ...stopping };
}

/** Index: `bulk_item_failed_idx`. */
function readFailures(sql: Sql<'reads'>, bulkId: string): Promise<BulkState['failed']> {
  return sql.$queryRaw<BulkState['failed']>`
    select i.lease_id as "leaseId", i.code
    from bulk_item i
    where i.bulk_id = ${bulkId}::uuid and i.code is not null
    order by i.place
    limit ${BULK_FAILURES_SHOWN_MAX}`;
}

/**
 * Items after a place, with the names of their grants, as far as these are kept. Index: the primary key, and for each item
 * `lease_lease_id_key` and `lease_event_lease_id_idx`.
 */
export function readItems(
  sql: Sql<'reads'>,
  bulkId: string,
  { afterPlace, limit }: { readonly afterPlace: string | null; readonly limit: number },
): Promise<Dated<BulkItemView, 'doneAt'>[]> {
  return sql.$queryRaw<Dated<BulkItemView, 'doneAt'>[]>`
    select i.place, i.lease_id::text as "leaseId", i.fencing_token::text as "fencingToken",
      coalesce(l.face, e.face) as face, coalesce(l.namespace, e.namespace) as namespace,
      coalesce(l.pool, l.name, e.name) as name, i.done_at as "doneAt", i.code
    from (
      select * from bulk_item i
      where i.bulk_id = ${bulkId}::uuid
        and (${afterPlace}::bigint is null or i.place > ${afterPlace}::bigint)
      order by i.place
      limit ${limit}
    ) i
    left join lease l on l.lease_id = i.lease_id
    left join lateral (
      select e.face, e.namespace, e.name from lease_event e where e.lease_id = i.lease_id limit 1
    ) e on l.lease_id is null
    order by i.place`;
}

/** Removes bulk actions that ended longer ago than events are kept, their items first. */
export async function removeOldBulks(
  sql: Sql<'general'>,
  retentionDays: number,
  pass: RetentionPass,
): Promise<void> {
  const isOld = fragment`b.ended_at < clock_timestamp() - ${retentionDays}::int * interval '1 day'`;
  // Index: `bulk_ended_at_idx`, then the primary key of items.
  await removeOld(sql, pass, 'bulk items', {
    old: fragment`
      select i.bulk_id, i.place
      from bulk b
      join bulk_item i on i.bulk_id = b.id
      where ${isOld}
      order by b.ended_at, i.bulk_id, i.place`,
    lock: fragment`for update of i skip locked`,
    deletes: fragment`
      gone as (
        delete from bulk_item i
        using old
        where i.bulk_id = old.bulk_id and i.place = old.place
        returning i.place
      )`,
  });
  await removeOld(sql, pass, 'bulk actions', {
    old: fragment`
      select b.id
      from bulk b
      where ${isOld} and not exists (select from bulk_item i where i.bulk_id = b.id)
      order by b.ended_at`,
    deletes: fragment`gone as (delete from bulk b using old where b.id = old.id returning b.id)`,
  });
}

// The holders of a bulk action's items: those that hold now, and those that have not stopped yet.

const NONE_STOPPING: Pick<BulkProgress, 'stopping' | 'stopsBy'> = {
  stopping: 0,
  stopsBy: null,
};

/**
 * Which items are in force, and how long their holders may go on after a revoke: to the hard rung, which a
 * renewal just before the revoke moves to its full distance. Index: `lease_lease_id_key`.
 */
export async function readPreview(
  sql: Sql<'reads'>,
  items: readonly GrantRef[],
): Promise<BulkPreview> {
  const rows = await sql.$queryRaw<{ leaseId: string; stopsWithinMs: number }[]>`
    select l.lease_id as "leaseId",
      case
        when l.renewable then l.hard_after_ms
        else greatest(0, l.hard_after_ms - l.ttl_ms
          + extract(epoch from l.expires_at - clock_timestamp()) * 1000)
      end::float8 as "stopsWithinMs"
    from unnest(
      ${items.map(({ leaseId }) => leaseId)}::uuid[],
      ${items.map(({ fencingToken }) => fencingToken)}::bigint[]
    ) as i (lease_id, fencing_token)
    join lease l on l.lease_id = i.lease_id and l.fencing_token = i.fencing_token
    where lease_unexpired(l.released_at, l.end_reason, l.expires_at)`;
  return {
    held: rows.map(({ leaseId }) => leaseId),
    stopsWithinMs: Math.round(Math.max(0, ...rows.map(({ stopsWithinMs }) => stopsWithinMs))),
  };
}

/**
 * Of the items that a bulk action has revoked, how many have a holder that may still go on:
 *
 * - the grant itself is in force: revoked gracefully, neither released nor expired;
 * - a key that was ended by force is held back: its drone has not reported the backend as gone;
 * - a lease or an environment was ended by force: its holder goes on until its own deadline at the latest,
 *   which is in the event, because the row may be another grant's by now.
 *
 * Index: the primary key of items, and for each `lease_lease_id_key`, `lease_event_lease_id_idx`.
 */
async function readStopping(
  sql: Sql<'reads'>,
  bulkId: string,
): Promise<Pick<BulkProgress, 'stopping' | 'stopsBy'>> {
  const [row] = await sql.$queryRaw<{ stopping: number; stopsBy: number | null }[]>`
    select count(*)::int as stopping, extract(epoch from max(s.until))::float8 * 1000 as "stopsBy"
    from bulk b
    join bulk_item i on i.bulk_id = b.id and i.done_at is not null and i.code is null
    cross join lateral (
      select coalesce(l.stops_by, l.expires_at) as until
      from lease l
      where l.lease_id = i.lease_id and (
        lease_unexpired(l.released_at, l.end_reason, l.expires_at) or l.stops_by > clock_timestamp()
      )
      union all
      select (e.detail ->> 'stopsBy')::timestamptz
      from lease_event e
      where b.mode = 'force' and e.lease_id = i.lease_id and e.kind = 'revoked' and e.face <> 'key'
        and (e.detail ->> 'stopsBy')::timestamptz > clock_timestamp()
    ) s
    where b.id = ${bulkId}::uuid`;
  if (row?.stopsBy == null) return NONE_STOPPING;
  return { stopping: row.stopping, stopsBy: isoOf(row.stopsBy) };
}

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
 * no operator or admin any more, is limited to namespaces, or came with a token that is not in force.
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
          when coalesce(p.namespaces, t.namespaces) <> '{}' then 'limited'
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
      coalesce(l.namespace, a.namespace) as namespace, coalesce(l.pool, l.name, a.name) as name,
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
