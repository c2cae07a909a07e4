/**
 * What is known of waits, and of who made others wait. Each statement reads a bounded number of rows, the newest
 * first, and says from when on it has read all that there is. Instants are epoch milliseconds of the database.
 */
import { type Face, RESERVED_NAMESPACE, type Resource } from '../../kernel/resource.ts';
import type { SlotMode } from '../../kernel/lease.ts';
import { withinLimits, withinNamespace } from '../../lists/index.ts';
import {
  asParameters,
  C,
  type Fragment,
  fragment,
  grantRows,
  IS_IN_FORCE,
  type Sql,
} from '../../postgres/sql.ts';

/** Events of one resource. A handover makes two. */
const EVENTS_OF_ONE_MAX = 4_000;
const WAITS_OF_ONE_MAX = 2_000;
/** Of those who wait or hold now, so many are read. */
const NOW_MAX = 1_000;
/** Waits of all resources. */
const WAITS_MAX = 20_000;
/** Events of all resources, in which leases are looked for that one holder had at the same time. */
const EVENTS_MAX = 20_000;

const IS_BEGINNING = fragment`e.kind in ('granted', 'taken_over')`;
const IS_END = fragment`(
      e.kind in ('released', 'failed', 'expired', 'removed')
      or (e.kind = 'revoked' and e.detail ->> 'mode' = 'force')
    )`;

function msOf(instant: Fragment): Fragment {
  return fragment`extract(epoch from ${instant})::float8 * 1000`;
}

/** The beginning of the window, and now, as `asked`. */
function asked(windowMinutes: number): Fragment {
  return fragment`
    asked as materialized (
      select t.now, t.now - ${windowMinutes}::int * interval '1 minute' as since
      from (select clock_timestamp() as now) t
    )`;
}

/** From when on all was read: later than asked if there is more than `max` rows in `rows`. */
function readFrom(rows: Fragment, at: Fragment, max: number): Fragment {
  return fragment`(
      select case when count(*) = ${max}::int then greatest(min(${at}), a.since) else a.since end from ${rows}
    )`;
}

/** A grant of a resource, as far as it was within the window. */
export interface Hold {
  readonly leaseId: string;
  readonly holder: string;
  /** Null where its beginning is not kept any more. */
  readonly actor: string | null;
  readonly mode: SlotMode | null;
  readonly beganAt: number;
  /** Null while it lasts. */
  readonly endedAt: number | null;
  readonly remainingMs: number | null;
}

export interface HoldsFound {
  readonly from: number;
  readonly asOf: number;
  /** In the order in which they began. */
  readonly holds: readonly Hold[];
}

/**
 * Who held a resource within a window, and who holds it now. One that expired and was not recorded yet ended at its
 * expiry. Index: `lease_event_resource_idx`, `lease_event_lease_id_idx`, `lease_lease_id_key`, `lease_pkey`.
 */
export async function readHolds(
  sql: Sql<'reads'>,
  resource: Resource,
  windowMinutes: number,
): Promise<HoldsFound> {
  const { face, namespace, name } = resource;
  const rows = await sql.$queryRaw<
    (Omit<Hold, 'leaseId'> & { leaseId: string | null; from: number; asOf: number })[]
  >`
    with ${asked(windowMinutes)},
    recent as materialized (
      select e.at, e.lease_id, e.actor, e.detail, ${IS_BEGINNING} as is_beginning, ${IS_END} as is_end
      from lease_event e
      where e.face = ${face} ${C} and e.namespace = ${namespace} ${C} and e.name = ${name} ${C}
      order by e.id desc
      limit ${EVENTS_OF_ONE_MAX}
    ),
    reach as materialized (
      select a.now, ${readFrom(fragment`recent r`, fragment`r.at`, EVENTS_OF_ONE_MAX)} as since
      from asked a
    ),
    live as materialized (${grantRows(asParameters(resource), { where: IS_IN_FORCE, limit: NOW_MAX })}),
    begun as (
      select r.* from recent r cross join reach c where r.is_beginning and r.at >= c.since
    ),
    ended as (
      select r.lease_id, r.at from recent r cross join reach c where r.is_end and r.at >= c.since
    ),
    hold as (
      select lease_id, b.at as began_at, b.actor, b.detail, e.at as ended_at
      from begun b full join ended e using (lease_id)
      union all
      select l.lease_id, l.granted_at, null, null, null from live l
      where l.lease_id not in (select b.lease_id from begun b)
    ),
    known as (
      select h.lease_id, coalesce(h.began_at, p.at) as began_at, coalesce(h.actor, p.actor) as actor,
        coalesce(h.detail, p.detail) as detail, h.ended_at
      from hold h
      left join lateral (
        select e.at, e.actor, e.detail from lease_event e
        where h.detail is null and e.lease_id = h.lease_id and ${IS_BEGINNING}
        order by e.id
        limit 1
      ) p on true
    )
    select ${msOf(fragment`c.since`)} as "from", ${msOf(fragment`c.now`)} as "asOf", k.lease_id as "leaseId",
      coalesce(l.holder, k.detail ->> 'holder', '') as holder, k.actor, l.mode,
      ${msOf(fragment`coalesce(k.began_at, c.since)`)} as "beganAt",
      case when l.lease_id is null then ${msOf(fragment`coalesce(k.ended_at, x.expires_at, k.began_at, c.since)`)} end
        as "endedAt",
      ${msOf(fragment`l.expires_at - c.now`)} as "remainingMs"
    from reach c
    left join known k on true
    left join live l on l.lease_id = k.lease_id
    left join lateral (
      select o.expires_at from lease o
      where l.lease_id is null and k.ended_at is null and o.lease_id = k.lease_id
      limit 1
    ) x on true
    order by k.began_at, k.lease_id`;
  const [first] = rows;
  return {
    from: first?.from ?? 0,
    asOf: first?.asOf ?? 0,
    holds: rows.flatMap(({ from: _from, asOf: _asOf, leaseId, ...hold }) =>
      leaseId === null ? [] : [{ ...hold, leaseId }],
    ),
  };
}

/** A wait in line. */
export interface Wait {
  /** Of the grant that it became, if it was granted. */
  readonly ticketId: string;
  readonly waiter: string;
  readonly beganAt: number;
  /** Null while it lasts. */
  readonly endedAt: number | null;
  readonly outcome: 'granted' | 'gave_up' | 'superseded' | 'lapsed' | null;
}

export interface WaitsFound {
  readonly from: number;
  /** Those that are over, and then those who wait, first in line first. */
  readonly waits: readonly Wait[];
}

/**
 * The waits that ended within the window `asked`, of tickets and rows of `lease_wait` `w` that fulfil `of`, at most `max`
 * of each. A ticket that has lapsed is kept for a while, one for an environment for a day, and becomes a row of `lease_wait` then.
 */
function endedWaits(of: Fragment, max: number): Fragment {
  return fragment`
      select * from (
        (
          select w.face, w.namespace, w.name, w.ticket_id, w.waiter, w.began_at, w.ended_at, w.outcome
          from lease_wait w
          where ${of} and w.ended_at >= (select a.since from asked a)
          order by w.ended_at desc
          limit ${max}
        )
        union all
        (
          select w.face, w.namespace, w.name, w.ticket_id, w.waiter, w.created_at, w.valid_until, 'lapsed'
          from lease_waiter w
          where ${of}
            and w.valid_until >= (select a.since from asked a) and w.valid_until <= (select a.now from asked a)
          order by w.valid_until desc
          limit ${max}
        )
      ) w
      order by w.ended_at desc
      limit ${max}`;
}

/** The waits for a resource that ended within a window, and who waits now. Index: `lease_wait_pkey`, `lease_waiter_resource_idx`. */
export async function readWaits(
  sql: Sql<'reads'>,
  { face, namespace, name }: Resource,
  windowMinutes: number,
): Promise<WaitsFound> {
  const rows = await sql.$queryRaw<
    (Omit<Wait, 'waiter'> & { waiter: string | null; from: number })[]
  >`
    with ${asked(windowMinutes)},
    recent as materialized (${endedWaits(
      fragment`w.face = ${face} ${C} and w.namespace = ${namespace} ${C} and w.name = ${name} ${C}`,
      WAITS_OF_ONE_MAX,
    )}),
    reach as materialized (
      select ${readFrom(fragment`recent r`, fragment`r.ended_at`, WAITS_OF_ONE_MAX)} as since from asked a
    ),
    wait as (
      select r.ticket_id, r.waiter, r.began_at, r.ended_at, r.outcome, null::bigint as place from recent r
      union all
      (
        select o.ticket_id, o.waiter, o.created_at, null, null, lease_waiter_place(o) from lease_waiter o
        where o.face = ${face} ${C} and o.namespace = ${namespace} ${C} and o.name = ${name} ${C}
          and o.valid_until > (select a.now from asked a)
        order by lease_waiter_place(o)
        limit ${NOW_MAX}
      )
    )
    select ${msOf(fragment`c.since`)} as "from",
      w.ticket_id as "ticketId", w.waiter, ${msOf(fragment`w.began_at`)} as "beganAt", ${msOf(fragment`w.ended_at`)} as "endedAt", w.outcome
    from reach c
    left join wait w on true
    order by w.place nulls first, w.ended_at`;
  return {
    from: rows[0]?.from ?? 0,
    waits: rows.flatMap(({ from: _from, waiter, ...wait }) =>
      waiter === null ? [] : [{ ...wait, waiter }],
    ),
  };
}

/** Which resources a caller asks about, and may see. */
export interface Within {
  readonly namespace: string;
  readonly namespaces: readonly string[] | null;
  readonly windowMinutes: number;
}

/** A resource that was waited for. */
export interface MostWaited extends Resource {
  readonly waits: number;
  readonly waiting: number;
  readonly waitedMs: number;
  readonly longestMs: number;
  readonly gaveUp: number;
}

/**
 * What was waited for longest within a window, all waits together. Leasehold's own leases are left out. Index:
 * `lease_wait_ended_at_idx`; tickets, few beside leases, are read whole.
 */
export async function readMostWaited(
  sql: Sql<'reads'>,
  { namespace, namespaces, windowMinutes }: Within,
  limit: number,
): Promise<{ from: number; asOf: number; items: MostWaited[] }> {
  const column = fragment`w.namespace`;
  const rows = await sql.$queryRaw<
    (Omit<MostWaited, 'face'> & { face: Face | null; from: number; asOf: number })[]
  >`
    with ${asked(windowMinutes)},
    recent as materialized (${endedWaits(fragment`true`, WAITS_MAX)}),
    reach as materialized (
      select a.now, ${readFrom(fragment`recent r`, fragment`r.ended_at`, WAITS_MAX)} as since from asked a
    ),
    wait as (
      select r.face, r.namespace, r.name, r.began_at, r.ended_at, r.outcome from recent r
      union all
      select o.face, o.namespace, o.name, o.created_at, null, null from lease_waiter o
      where o.valid_until > (select a.now from asked a)
    ),
    counted as (
      select w.face, w.namespace, w.name, w.ended_at, w.outcome,
        ${msOf(fragment`least(w.ended_at, c.now) - greatest(w.began_at, c.since)`)} as ms
      from wait w cross join reach c
      where w.namespace <> ${RESERVED_NAMESPACE} ${C}
        and ${withinNamespace(namespace, column)} and ${withinLimits(namespaces, column)}
    ),
    most as (
      select w.face, w.namespace, w.name, count(*)::int as waits,
        count(*) filter (where w.ended_at is null)::int as waiting,
        sum(w.ms) as "waitedMs", max(w.ms) as "longestMs",
        count(*) filter (where w.outcome <> 'granted')::int as "gaveUp"
      from counted w
      group by w.face, w.namespace, w.name
      order by sum(w.ms) desc, w.face, w.namespace, w.name
      limit ${limit}
    )
    select ${msOf(fragment`c.since`)} as "from", ${msOf(fragment`c.now`)} as "asOf", m.*
    from reach c
    left join most m on true
    order by m."waitedMs" desc, m.face, m.namespace, m.name`;
  return {
    from: rows[0]?.from ?? 0,
    asOf: rows[0]?.asOf ?? 0,
    items: rows.flatMap(({ from: _from, asOf: _asOf, face, ...item }) =>
      face === null ? [] : [{ ...item, face }],
    ),
  };
}

/** A grant of one of several that its holder had at the same time. */
export interface Nested extends Resource {
  /** Of the events of its beginning and its end; null while it lasts. */
  readonly id: number;
  readonly endId: number | null;
  /** What was granted in one transaction was granted in no order. */
  readonly transaction: string;
  readonly principal: string;
  readonly holder: string;
  readonly actor: string;
  readonly at: number;
}

/** One who holds more than this does several things at once, and the order says nothing. */
export const HELD_BEFORE_MAX = 4;

/**
 * The recent grants of holders who were granted one while they held others, in the order in which they began. A
 * holder is known by its name and its token. What was granted before the events that are read is not known to be
 * held. Leasehold's own leases are left out. Index: `lease_event_pkey`, from its end.
 */
export async function readNested(
  sql: Sql<'reads'>,
  { namespaces, windowMinutes }: Omit<Within, 'namespace'>,
): Promise<{ from: number; grants: Nested[] }> {
  const rows = await sql.$queryRaw<(Omit<Nested, 'id'> & { id: number | null; from: number })[]>`
    with ${asked(windowMinutes)},
    recent as materialized (
      select e.id, e.at, e.xmin::text as transaction, e.face, e.namespace, e.name, e.lease_id, e.actor, e.detail,
        ${IS_BEGINNING} as is_beginning, ${IS_END} as is_end
      from lease_event e
      order by e.id desc
      limit ${EVENTS_MAX}
    ),
    reach as materialized (
      select ${readFrom(fragment`recent r`, fragment`r.at`, EVENTS_MAX)} as since from asked a
    ),
    seen as materialized (
      select r.* from recent r cross join reach c
      where r.at >= c.since and r.face <> 'key' and r.namespace <> ${RESERVED_NAMESPACE} ${C}
        and ${withinLimits(namespaces, fragment`r.namespace`)}
    ),
    -- Nothing is joined: a planner that expects few of these would compare each with each.
    hold as (
      select m.* from (
        select r.id, r.transaction, r.face, r.namespace, r.name, r.actor, r.at, r.is_beginning,
          r.detail ->> 'principal' as principal, r.detail ->> 'holder' as holder,
          max(r.id) filter (where r.is_end) over (partition by r.lease_id) as end_id
        from seen r
      ) m
      where m.is_beginning
    ),
    step as (
      select h.*, h.id as step_id, 1 as more from hold h
      union all
      select h.*, h.end_id, -1 from hold h where h.end_id is not null
    ),
    counted as (
      select s.*, sum(s.more) over (partition by s.principal, s.holder order by s.step_id) as held
      from step s
    ),
    judged as (
      select n.*, bool_or(n.more = 1 and n.held between 2 and ${HELD_BEFORE_MAX + 1})
        over (partition by n.principal, n.holder) as is_nesting
      from counted n
      where n.principal is not null and n.holder is not null
    )
    select ${msOf(fragment`c.since`)} as "from", h.id::float8 as id, h.end_id::float8 as "endId", h.transaction,
      h.face, h.namespace, h.name, h.principal, h.holder, h.actor, ${msOf(fragment`h.at`)} as at
    from reach c
    left join (select j.* from judged j where j.more = 1 and j.is_nesting) h on true
    order by h.id`;
  return {
    from: rows[0]?.from ?? 0,
    grants: rows.flatMap(({ from: _from, id, ...grant }) =>
      id === null ? [] : [{ ...grant, id }],
    ),
  };
}
