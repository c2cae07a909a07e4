/**
 * The statements of the event stream. All of them only read; none waits for a lock. Tables of one row
 * are read with `limit 1`: without, the planner expects thousands of rows of a table that it has no
 * statistics of, and a PostgreSQL with JIT compiles the statement for a second before it runs.
 */
import { ASKED_EVENT_KINDS, type EventKind } from '../../kernel/face-types.ts';
import { type Face, isWithinNamespace, type Resource } from '../../kernel/resource.ts';
import {
  C,
  type Fragment,
  fragment,
  joinFragments,
  onlyRow,
  type Sql,
} from '../../postgres/sql.ts';
import type { EventRow } from './history.ts';

/** How many events one statement looks through. */
const EVENTS_PER_PAGE_MAX = 500;

/**
 * The database epoch that new events belong to; null after a restore or failover until a controller has
 * noted it. The alias of `database_epoch` must be `e`.
 */
export const EPOCH = fragment`
  case
    when e.epoch is null then 0
    when e.timeline = database_timeline()
      and e.system_identifier = (select s.system_identifier::text from pg_control_system() s)
      then e.epoch
  end as epoch`;

const EVENT_COLUMNS = fragment`
  v.id::text as id, extract(epoch from v.at)::float8 * 1000 as at, v.face, v.namespace, v.name,
  v.lease_id as "leaseId", v.fencing_token::text as "fencingToken", v.kind, v.actor, v.reason,
  v.detail`;

/** A reading of how far events have come. */
export interface EventReading extends MarkReading {
  readonly epoch: number | null;
}

/**
 * Reads how far events have come, and takes a transaction id if there are events after `notedId`. The
 * id is taken after the statement's snapshot, as {@link FinalMark} needs it. One row always. The
 * greatest id is the end of the primary key.
 */
export async function readEventMark(sql: Sql<'general'>, notedId: bigint): Promise<EventReading> {
  const rows = await sql.$queryRaw<
    Record<'lastId' | 'ownXid' | 'xmin' | 'xmax' | 'epoch', unknown>[]
  >`
    with seen as materialized (select coalesce(max(v.id), 0) as last_id from lease_event v)
    select
      s.last_id::text as "lastId",
      case when s.last_id > ${String(notedId)}::bigint then pg_current_xact_id()::text end as "ownXid",
      pg_snapshot_xmin(pg_current_snapshot())::text as xmin,
      pg_snapshot_xmax(pg_current_snapshot())::text as xmax,
      ${EPOCH}
    from seen s left join database_epoch e on true
    limit 1`;
  const row = onlyRow(rows);
  return {
    lastId: BigInt(row.lastId as string),
    ownXid: row.ownXid === null ? null : BigInt(row.ownXid as string),
    xmin: BigInt(row.xmin as string),
    xmax: BigInt(row.xmax as string),
    epoch: row.epoch as number | null,
  };
}

/** Which events are kept. */
export interface EventBounds {
  readonly epoch: number | null;
  /** The greatest id of all events, removed ones included. */
  readonly lastId: bigint;
  /** Events up to this one may have been removed; no later one was. */
  readonly removedThroughId: bigint;
  /** The first event that is kept; null for none. */
  readonly oldestId: bigint | null;
  /** Events up to this one have been counted, which are final: see `createEventRollup`. */
  readonly countedThroughId: bigint;
}

/** One row always. Both ends are found by the primary key. */
export async function readEventBounds(sql: Sql<'general' | 'reads'>): Promise<EventBounds> {
  const rows = await sql.$queryRaw<
    (Record<'lastId' | 'removedThroughId' | 'countedThroughId', string> & {
      epoch: number | null;
      oldestId: string | null;
    })[]
  >`
    select ${EPOCH},
      greatest(m.removed_through_id, (select max(v.id) from lease_event v))::text as "lastId",
      m.removed_through_id::text as "removedThroughId",
      (select min(v.id) from lease_event v where v.id > m.removed_through_id)::text as "oldestId",
      (select c.through_id from stats_cursor c limit 1)::text as "countedThroughId"
    from lease_event_mark m left join database_epoch e on true
    limit 1`;
  const { epoch, lastId, removedThroughId, oldestId, countedThroughId } = onlyRow(rows);
  return {
    epoch,
    lastId: BigInt(lastId),
    removedThroughId: BigInt(removedThroughId),
    oldestId: oldestId === null ? null : BigInt(oldestId),
    countedThroughId: BigInt(countedThroughId),
  };
}

/** A part of the stream. */
export interface EventPage {
  readonly epoch: number | null;
  readonly removedThroughId: bigint;
  /** All events up to this one have been looked through. */
  readonly throughId: bigint;
  readonly events: readonly EventRow[];
}

/**
 * The events after one id up to another, of which the first {@link EVENTS_PER_PAGE_MAX} are looked
 * through. What was removed and what is there come from one snapshot: a page is complete when nothing
 * after `afterId` has been removed. Index: the primary key, a range. One row at least, whose `id` is
 * null where no event passed the filter. The epoch is read once and not for every row.
 */
export async function readEventPage(
  sql: Sql<'general' | 'reads'>,
  range: { readonly afterId: bigint; readonly upToId: bigint },
  filter: EventFilter,
): Promise<EventPage> {
  const rows = await sql.$queryRaw<
    (Omit<EventRow, 'id'> & {
      id: string | null;
      epoch: number | null;
      removedThroughId: string;
      throughId: string;
    })[]
  >`
    with life as materialized (
      select m.removed_through_id, ${EPOCH}
      from lease_event_mark m left join database_epoch e on true
      limit 1
    ),
    page as materialized (
      select v.id, v.at, v.face, v.namespace, v.name, v.lease_id, v.fencing_token, v.kind, v.actor,
        v.reason, v.detail
      from lease_event v
      where v.id > ${String(range.afterId)}::bigint and v.id <= ${String(range.upToId)}::bigint
      order by v.id
      limit ${EVENTS_PER_PAGE_MAX}
    ),
    scope as (
      select case
        when count(*) < ${EVENTS_PER_PAGE_MAX} then ${String(range.upToId)}::bigint
        else max(p.id)
      end as through_id
      from page p
    )
    select l.epoch, l.removed_through_id::text as "removedThroughId",
      s.through_id::text as "throughId", ${EVENT_COLUMNS}
    from life l
    cross join scope s
    left join page v on ${eventCondition(filter)}
    order by v.id`;
  const [first] = rows;
  return {
    epoch: first?.epoch ?? null,
    removedThroughId: BigInt(first?.removedThroughId ?? 0),
    throughId: BigInt(first?.throughId ?? range.afterId),
    events: rows.flatMap(
      ({ epoch: _, removedThroughId: _removed, throughId: _through, ...event }) =>
        event.id === null ? [] : [{ ...event, id: event.id }],
    ),
  };
}

/** The transaction that has been under way for longest, in the whole cluster, of those that write. */
export interface EventCulprit {
  /** Null for a prepared transaction, and where the database's user may not see it. */
  readonly pid: number | null;
  readonly applicationName: string | null;
  readonly database: string | null;
  /** The name of a prepared transaction. */
  readonly preparedAs: string | null;
  /** For how long it has been under way; null where the database's user may not see it. */
  readonly ageMs: number | null;
  /** What its session does, such as `idle in transaction`; null as {@link pid}. */
  readonly state: string | null;
  /** When its last statement began, as long ago; null as {@link pid}. */
  readonly queryAgeMs: number | null;
}

export interface EventLag {
  /** For how long the oldest event that is not final has waited; 0 when all are. */
  readonly lagMs: number;
  /** What it waits for; null when nothing is held back. */
  readonly culprit: EventCulprit | null;
}

/**
 * Which transaction events wait for: the oldest one that has a transaction id. Events that came after
 * it had begun wait for its end; the first of them is found by `lease_event_at_idx`. Locks nothing.
 * One row always.
 */
export async function readEventLag(sql: Sql<'general'>): Promise<EventLag> {
  const rows = await sql.$queryRaw<
    (EventCulprit & { isHeldBack: boolean; lagMs: number | null })[]
  >`
    with oldest as materialized (
      select pg_snapshot_xmin(pg_current_snapshot()) as xid,
        pg_snapshot_xmin(pg_current_snapshot()) < pg_snapshot_xmax(pg_current_snapshot()) as is_running
    ),
    culprit as (
      select a.pid, a.application_name, a.datname, null::text as gid, a.xact_start as begun_at,
        a.state, a.query_start
      from pg_stat_activity a, oldest o
      where o.is_running and a.backend_xid = o.xid::xid
      union all
      select null, null, p.database, p.gid, p.prepared, null, null
      from pg_prepared_xacts p, oldest o
      where o.is_running and p.transaction = o.xid::xid
      limit 1
    )
    select
      o.is_running as "isHeldBack",
      c.pid, c.application_name as "applicationName", c.datname as database, c.gid as "preparedAs",
      extract(epoch from clock_timestamp() - c.begun_at)::float8 * 1000 as "ageMs",
      c.state, extract(epoch from clock_timestamp() - c.query_start)::float8 * 1000 as "queryAgeMs",
      extract(epoch from clock_timestamp() - (
        select v.at from lease_event v where v.at >= c.begun_at order by v.at limit 1
      ))::float8 * 1000 as "lagMs"
    from oldest o left join culprit c on true`;
  const { isHeldBack, lagMs, ageMs, queryAgeMs, ...session } = onlyRow(rows);
  return {
    lagMs: wholeMs(lagMs ?? 0),
    culprit: isHeldBack
      ? { ...session, ageMs: wholeMsOr(ageMs), queryAgeMs: wholeMsOr(queryAgeMs) }
      : null,
  };
}

function wholeMsOr(ms: number | null): number | null {
  return ms === null ? null : wholeMs(ms);
}

/** Rounded; an instant of a moment ago may be later than the statement's own. */
function wholeMs(ms: number): number {
  return Math.max(0, Math.round(ms));
}

/** Which events a reader wants, and which it may see. A field that is left out does not filter. */
export interface EventFilter {
  readonly face?: Face | undefined;
  /** This one and its children. */
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  /** By default all but {@link ASKED_EVENT_KINDS}. */
  readonly kinds?: readonly EventKind[] | undefined;
  /** Namespaces, children included, that the reader is limited to; null for no limit. */
  readonly limits: readonly string[] | null;
}

/** Whether a reader gets an event; {@link eventCondition} is the same in SQL. */
export function matchesFilter(
  event: Resource & { readonly kind: EventKind },
  filter: EventFilter,
): boolean {
  return (
    (filter.face === undefined || event.face === filter.face) &&
    (filter.name === undefined || event.name === filter.name) &&
    (filter.kinds?.includes(event.kind) ?? !ASKED_EVENT_KINDS.includes(event.kind)) &&
    (filter.namespace === undefined || isWithinNamespace(event.namespace, filter.namespace)) &&
    (filter.limits?.some((allowed) => isWithinNamespace(event.namespace, allowed)) ?? true)
  );
}

/**
 * The condition of a filter on a row of `lease_event` whose alias is `v`. Written out rather than
 * with `lease_is_within`, which would be called for every row of every page.
 */
export function eventCondition(filter: EventFilter): Fragment {
  const { face, namespace, name, kinds, limits } = filter;
  const conditions = [fragment`true`];
  if (limits !== null) conditions.push(withinAny(limits));
  if (namespace !== undefined) conditions.push(withinAny([namespace]));
  if (face !== undefined) conditions.push(fragment`v.face = ${face} ${C}`);
  if (name !== undefined) conditions.push(fragment`v.name = ${name} ${C}`);
  conditions.push(
    kinds === undefined
      ? fragment`v.kind <> all(${[...ASKED_EVENT_KINDS]}::text[])`
      : fragment`v.kind = any(${[...kinds]}::text[])`,
  );
  return joinFragments(conditions, ' and ');
}

function withinAny(parents: readonly string[]): Fragment {
  if (parents.length === 0) return fragment`false`;
  const within = parents.map((parent) =>
    parent === ''
      ? fragment`true`
      : fragment`v.namespace = ${parent} ${C} or starts_with(v.namespace, ${`${parent}.`})`,
  );
  return fragment`(${joinFragments(within, ' or ')})`;
}

// Which events are final: committed, with no event still to come before them.
//
// Ids are given in order, but transactions end in any order, so that event 7 may be seen while 6 is
// still to come. A transaction that took an event id had taken its transaction id before. So a reader
// notes the greatest event id that it sees together with a transaction id of its own, taken after that
// reading: a transaction with a smaller event id has a smaller transaction id. Once no transaction
// before the noted one is under way, no event up to the noted one is still to come.

/** What one query of the database showed. */
export interface MarkReading {
  /** The greatest event id that was committed; 0 for none. */
  readonly lastId: bigint;
  /** The reading transaction's own id, if it took one. */
  readonly ownXid: bigint | null;
  /** All transactions before this one have ended. */
  readonly xmin: bigint;
  /** No transaction from this one on had ended. */
  readonly xmax: bigint;
}

/** How many notes are kept while one old transaction holds all events back. */
export const NOTES_MAX = 64;

/** Follows how far events are final. One for each database epoch. */
export class FinalMark {
  #finalId = 0n;
  #notes: { readonly lastId: bigint; readonly xid: bigint }[] = [];

  /** Events up to this one are final. Never decreases. */
  get finalId(): bigint {
    return this.#finalId;
  }

  /** The greatest id that needs no further note. */
  get notedId(): bigint {
    return this.#notes.at(-1)?.lastId ?? this.#finalId;
  }

  /** Takes a reading; readings come in the order in which they were made. */
  observe(reading: MarkReading): void {
    // A noted transaction ended with its reading. One that has not ended later is from before a crash,
    // after which transaction ids that were never written down are given again.
    if (this.#notes.some(({ xid }) => xid >= reading.xmax)) this.#notes = [];
    if (reading.ownXid !== null && reading.lastId > this.notedId) {
      // Every other note is dispensable: the next one makes its events final too.
      if (this.#notes.length >= NOTES_MAX) {
        this.#notes = this.#notes.filter((_, at) => at % 2 === 0);
      }
      this.#notes.push({ lastId: reading.lastId, xid: reading.ownXid });
    }
    while (this.#notes[0] !== undefined && this.#notes[0].xid <= reading.xmin) {
      this.#finalId = this.#notes[0].lastId;
      this.#notes.shift();
    }
  }
}
