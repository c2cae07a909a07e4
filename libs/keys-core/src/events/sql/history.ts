import {
  ASKED_EVENT_KINDS,
  type EventKind,
  type EventView,
  type HolderAt,
  type HolderAtGrant,
  type WaiterView,
} from '../../kernel/face-types.ts';
import type { Face, Resource } from '../../kernel/resource.ts';
import { C, fragment, isoOf, onlyRow, type Sql } from '../../postgres/sql.ts';

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

/** Who holds a resource, and since when. */
export interface Holding {
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly holder: string;
  readonly metadata: unknown;
  /** ISO-8601. */
  readonly since: string;
}

/**
 * Who holds each of these resources, in their order; null while nobody does. A plain read by the primary key.
 */
export async function readHoldings(
  sql: Sql<'general'>,
  resources: readonly Resource[],
): Promise<(Holding | null)[]> {
  const rows = await sql.$queryRaw<(Omit<Holding, 'since'> & { place: number; since: number })[]>`
    with asked as materialized (
      select a.face ${C} as face, a.namespace ${C} as namespace, a.name ${C} as name, a.place
      from unnest(
        ${resources.map(({ face }) => face)}::text[],
        ${resources.map(({ namespace }) => namespace)}::text[],
        ${resources.map(({ name }) => name)}::text[]
      ) with ordinality as a (face, namespace, name, place)
    )
    select a.place::int as place, l.lease_id as "leaseId", l.fencing_token::text as "fencingToken",
      l.holder, l.metadata, extract(epoch from l.granted_at)::float8 * 1000 as since
    from asked a
    cross join lateral (
      select k.* from lease k
      where k.face = a.face and k.namespace = a.namespace and k.name = a.name
      limit 1
    ) l
    where lease_unexpired(l.released_at, l.end_reason, l.expires_at)`;
  const found = new Map(rows.map(({ place, ...row }) => [place, row]));
  return resources.map((_resource, index) => {
    const row = found.get(index + 1);
    return row === undefined ? null : { ...row, since: isoOf(row.since) };
  });
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

/** An event of one resource; `at` is epoch milliseconds. */
interface FactAt {
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly kind: EventKind;
  readonly at: number;
  readonly actor: string;
  readonly reason: string | null;
  readonly detail: unknown;
}

/** The row of a resource's newest grant, as it is now. */
interface NewestGrant {
  readonly leaseId: string;
  /** The grant's own: a revocation by force has raised that of the row by one. */
  readonly fencingToken: string;
  readonly holder: string;
  /** What an environment is used for. */
  readonly action: string | null;
  readonly comment: string | null;
  readonly grantedAt: number;
  readonly expiresAt: number;
  /** Whether the row says by itself that the grant is over: it was ended, or has expired. */
  readonly isOver: boolean;
}

/** What is known of a resource around a moment. */
interface FactsAround {
  readonly now: number;
  readonly at: number;
  /** The newest grant, if it began before the moment. */
  readonly newest: NewestGrant | null;
  /** The last event before the moment that began a grant. */
  readonly begun: FactAt | null;
  /** The event that ended that grant, also after the moment. */
  readonly ended: FactAt | null;
  /** The last event before the moment that blocked or allowed the renewal of that grant. */
  readonly blocked: FactAt | null;
  /** The first event after the moment that shows who held the resource before it. */
  readonly next: FactAt | null;
  /** The oldest event that is kept, of any resource. */
  readonly oldestAt: number | null;
}

/** Of the events after the moment, the number among which the one with the smallest id is looked for. */
const DISORDER_MAX = 1_000;

/** The row `n` of the newest grant. */
const NEWEST = fragment`jsonb_build_object(
      'leaseId', n.lease_id, 'holder', n.holder, 'comment', n.comment,
      'action', case when n.face = 'environment' then n.tag end,
      'fencingToken', (n.fencing_token - case when n.end_reason = 'revoked' then 1 else 0 end)::text,
      'grantedAt', extract(epoch from n.granted_at)::float8 * 1000,
      'expiresAt', extract(epoch from n.expires_at)::float8 * 1000,
      'isOver', not lease_unexpired(n.released_at, n.end_reason, n.expires_at)
    )`;

/** Whether the event `e` ended its grant. */
const IS_END = fragment`(
      e.kind in ('released', 'failed', 'expired', 'removed')
      or (e.kind = 'revoked' and e.detail ->> 'mode' = 'force')
    )`;

/** Whether the event `e` blocked or allowed the renewal of its grant. */
const IS_OF_RENEWAL = fragment`(
      e.kind in ('renewal_blocked', 'renewal_allowed')
      or (e.kind = 'revoked' and e.detail ->> 'mode' = 'graceful')
    )`;

/**
 * Whether the event `e` began the grant in question. It may be later than the moment, although its grant is not: a
 * grant and its event have times of their own, which round to different milliseconds.
 */
const IS_BEGINNING_OF_LAST = fragment`(
      e.kind in ('granted', 'taken_over')
      and e.lease_id is not distinct from (select l.lease_id from last l)
    )`;

/** The event `e`. */
const FACT = fragment`jsonb_build_object(
      'leaseId', e.lease_id, 'fencingToken', e.fencing_token::text, 'kind', e.kind,
      'at', extract(epoch from e.at)::float8 * 1000, 'actor', e.actor, 'reason', e.reason, 'detail', e.detail
    )`;

/**
 * What happened to a resource around a moment. Reads a handful of rows however many events the resource or
 * the log has: the moment is found in the log by its time, and the resource's events before it by their ids.
 * The ids are the order in which things happened; where the database's clock was set back, a moment that it
 * shows twice is the first of the two.
 *
 * Indexes: `lease_event_at_idx`, `lease_event_resource_idx`, `lease_event_lease_id_idx`, `lease_pkey`.
 */
export async function readFactsAround(
  sql: Sql<'reads'>,
  resource: Resource,
  atIso: string,
): Promise<FactsAround> {
  const isOf = fragment`e.face = ${resource.face} ${C} and e.namespace = ${resource.namespace} ${C}
        and e.name = ${resource.name} ${C}`;
  const rows = await sql.$queryRaw<FactsAround[]>`
    with asked as materialized (
      select ${atIso}::timestamptz as at
    ),
    after as materialized (
      select coalesce(min(x.id), 9223372036854775807) as id
      from (
        select e.id
        from lease_event e
        where e.at > (select a.at from asked a)
        order by e.at
        limit ${DISORDER_MAX}
      ) x
    ),
    newest as (
      select l.*
      from lease l
      where l.face = ${resource.face} ${C} and l.namespace = ${resource.namespace} ${C}
        and l.name = ${resource.name} ${C} and l.granted_at <= (select a.at from asked a)
    ),
    begun as materialized (
      select e.*
      from lease_event e
      where ${isOf} and e.id < (select f.id from after f) and e.at <= (select a.at from asked a)
        and e.kind in ('granted', 'taken_over')
      order by e.id desc
      limit 1
    ),
    last as materialized (
      select coalesce((select n.lease_id from newest n), (select b.lease_id from begun b)) as lease_id
    )
    select extract(epoch from clock_timestamp())::float8 * 1000 as now,
      extract(epoch from a.at)::float8 * 1000 as at,
      (select ${NEWEST} from newest n) as newest,
      (select ${FACT} from begun e) as begun,
      (
        select ${FACT}
        from lease_event e
        where e.lease_id = (select l.lease_id from last l) and ${IS_END}
        order by e.id
        limit 1
      ) as ended,
      (
        select ${FACT}
        from lease_event e
        where e.lease_id = (select l.lease_id from last l) and e.at <= a.at and ${IS_OF_RENEWAL}
        order by e.id desc
        limit 1
      ) as blocked,
      (
        select ${FACT}
        from lease_event e
        where ${isOf} and e.id >= (select f.id from after f) and e.at > a.at
          and e.kind <> all (${[...ASKED_EVENT_KINDS]}::text[]) and not ${IS_BEGINNING_OF_LAST}
        order by e.id
        limit 1
      ) as next,
      (
        select extract(epoch from e.at)::float8 * 1000 from lease_event e order by e.at limit 1
      ) as "oldestAt"
    from asked a`;
  return onlyRow(rows);
}

// Who held a resource at a moment, from what is known of it around that moment.

const ENDS: readonly EventKind[] = ['released', 'failed', 'expired', 'removed'];

type Answer = Pick<HolderAt, 'phase' | 'grant'>;

/**
 * The answer for the moment of the facts. A grant that expired was over before its event, which the next
 * caller or the reaper wrote; renewals are not kept, so until that event it counts as held, and its end says
 * `expired`. What began before the oldest event that is kept is known only while it lasts, or by what ended it.
 */
export function holderAt(face: Face, facts: FactsAround): Answer {
  const begun = beginningOf(facts);
  if (begun === undefined) {
    const { at, next, oldestAt } = facts;
    return withoutBeginning(next, oldestAt === null || at >= oldestAt);
  }
  const { at, ended, blocked } = facts;
  const untilAt = endMs(facts);
  const grant: HolderAtGrant = {
    ...begun,
    until: untilAt === null ? null : isoOf(untilAt),
    end: endOf(ended, untilAt),
    blocked: blocked === null || blocked.kind === 'renewal_allowed' ? null : actOf(blocked),
  };
  if (untilAt === null || at < untilAt) {
    return { phase: grant.blocked === null ? 'held' : 'expiring', grant };
  }
  // A key that was ended by force is held back until its backend must be gone.
  const isHeldBack = face === 'key' && at < stopsBy(ended);
  return { phase: isHeldBack ? 'expiring' : 'free', grant };
}

/** The grant that began last before the moment, by its row while it is the newest, or else by its event. */
function beginningOf({
  newest,
  begun,
}: FactsAround): Omit<HolderAtGrant, 'until' | 'end' | 'blocked'> | undefined {
  if (newest !== null) {
    const { leaseId, fencingToken, holder, action, comment, grantedAt } = newest;
    return { leaseId, fencingToken, holder, action, comment, since: isoOf(grantedAt) };
  }
  if (begun === null) return undefined;
  const { leaseId, fencingToken, at, detail } = begun;
  return {
    leaseId,
    fencingToken,
    since: isoOf(at),
    holder: textIn(detail, 'holder'),
    action: textIn(detail, 'action'),
    comment: textIn(detail, 'comment'),
  };
}

/** When that grant ended; an end that was not recorded was before the next grant. */
function endMs({ newest, ended, next }: FactsAround): number | null {
  if (ended !== null) return ended.at;
  if (newest?.isOver === true) return newest.expiresAt;
  return next !== null && isBeginning(next) ? next.at : null;
}

/** No beginning is kept: what happened next may show that somebody held it. */
function withoutBeginning(next: FactAt | null, isKept: boolean): Answer {
  if (next === null || isBeginning(next)) {
    return { phase: isKept ? 'free' : 'unknown', grant: null };
  }
  const isEnd = ENDS.includes(next.kind) || isForced(next);
  return {
    phase: 'held',
    grant: {
      leaseId: next.leaseId,
      fencingToken: ownToken(next),
      holder: null,
      action: null,
      comment: null,
      since: null,
      blocked: null,
      until: isEnd ? isoOf(next.at) : null,
      end: isEnd ? endOf(next, next.at) : null,
    },
  };
}

function isBeginning({ kind }: FactAt): boolean {
  return kind === 'granted' || kind === 'taken_over';
}

/** A revocation by force raises the token by one, and its event has the raised one. */
function ownToken({ kind, fencingToken, detail }: FactAt): string {
  return isForced({ kind, detail }) ? String(BigInt(fencingToken) - 1n) : fencingToken;
}

function isForced({ kind, detail }: Pick<FactAt, 'kind' | 'detail'>): boolean {
  return kind === 'revoked' && textIn(detail, 'mode') === 'force';
}

function endOf(ended: FactAt | null, untilAt: number | null): HolderAtGrant['end'] {
  if (ended !== null) return { kind: ended.kind, ...actOf(ended) };
  return untilAt === null
    ? null
    : { kind: 'expired', at: isoOf(untilAt), actor: 'leasehold', reason: null };
}

function actOf({ at, actor, reason }: FactAt): {
  at: string;
  actor: string;
  reason: string | null;
} {
  return { at: isoOf(at), actor, reason };
}

function stopsBy(ended: FactAt | null): number {
  const text = textIn(ended?.detail, 'stopsBy');
  const isAbandoned = fieldIn(ended?.detail, 'abandon') === true;
  return text === null || isAbandoned ? Number.NEGATIVE_INFINITY : Date.parse(text);
}

function textIn(detail: unknown, name: string): string | null {
  const value = fieldIn(detail, name);
  return typeof value === 'string' ? value : null;
}

function fieldIn(detail: unknown, name: string): unknown {
  return typeof detail === 'object' && detail !== null
    ? (detail as Record<string, unknown>)[name]
    : undefined;
}
