/**
 * The lines of environments. What is the same as in the line for a lease is in `line.ts`; here is what only
 * environments have: an order, waiters that a freeze passes over, and newer requests that supersede older ones.
 */
import type { GrantRequest } from '../../kernel/lease.ts';
import type { Named } from '../../kernel/resource.ts';
import {
  C,
  type Fragment,
  fragment,
  isFound,
  NO_FRAGMENT,
  onlyRow,
  type Sql,
} from '../../postgres/sql.ts';
import { ENVIRONMENT_TICKET_MS, type Ticket, type TicketRequest } from './line.ts';

/** What a new request for an environment does to those with the same action that came before it. */
export type Supersede =
  /** Those that wait are refused. */
  | 'waiting'
  /** They are, and the one that holds it is revoked, gracefully. */
  | 'running';

/** How a request stands in the line for an environment. */
export interface EnvironmentPlace {
  /** What the environment is for. */
  readonly action: string;
  readonly comment: string | null;
  /** Those with a greater one come before all others. */
  readonly priority: number;
  /** Whether it stands before those of its priority that came earlier. */
  readonly isNewestFirst: boolean;
  readonly supersede?: Supersede | undefined;
}

export type EnvironmentTicketRequest = TicketRequest &
  EnvironmentPlace & {
    /** Who is written into events. */
    readonly actor: string;
    /** Why it may pass freezes, and in which role. */
    readonly override?: GrantRequest['override'];
  };

/** The place of a ticket in its line, the smallest first: the one rule of the order. Exact as a double. */
function placeOf(ticket: Fragment): Fragment {
  return fragment`lease_waiter_place(${ticket})`;
}

/**
 * Whether the waiter `o` could be granted now, as far as freezes decide. One that is frozen keeps its place, and
 * keeps back nobody whose action is not frozen.
 */
const IS_NOT_FROZEN = fragment`not exists (
            select from environment_freezes_on(o.namespace, o.name, o.action) f
            where not environment_freeze_passes(f.pass_roles, f.pass_people, o.override))`;

/** Those who wait for the environment of a request `w`, and come before it: all of them if it has no place. */
const BEFORE = fragment`
          from lease_waiter o
          left join lease_waiter own on w.is_queued and own.ticket_id = w.lease_id
          where o.face = w.face ${C} and o.namespace = w.namespace ${C} and o.name = w.name ${C}
            and o.valid_until > clock_timestamp() and o.ticket_id <> w.lease_id
            and (own.id is null or ${placeOf(fragment`o`)} < ${placeOf(fragment`own`)})`;

/**
 * The condition that nobody comes before a request `w` for an environment in its line. Nothing at all for requests
 * of which none is for an environment. **Index**: `lease_waiter_resource_idx`, `lease_waiter_ticket_id_key`.
 */
export function andItsTurn(requests: readonly GrantRequest[]): Fragment {
  if (requests.every(({ face }) => face !== 'environment')) return NO_FRAGMENT;
  return fragment`
        and (w.face <> 'environment' or not exists (select ${BEFORE} and ${IS_NOT_FROZEN}))`;
}

/** The first ticket in the line for the environment of a row `j`. Index: `lease_waiter_resource_idx`. */
export function firstInEnvironmentLine(j: Fragment): Fragment {
  return fragment`(
          select w.ticket_id from lease_waiter w
          where w.face = ${j}.face and w.namespace = ${j}.namespace and w.name = ${j}.name
            and w.valid_until > clock_timestamp()
          order by ${placeOf(fragment`w`)}
          limit 1
        )`;
}

/** Who comes before a request in its line. */
export interface LineAhead {
  /** Of the requests, from 1. */
  readonly place: number;
  readonly waiter: string;
  readonly createdAt: number;
  readonly lapsesInMs: number;
  readonly waiterCount: number;
}

/** How many waiters are counted at most. */
const COUNTED_WAITERS_MAX = 1_000;

/**
 * Who is before each request for an environment, and how many wait. No row: nobody waits that could be granted
 * before it. Index: as for {@link andItsTurn}.
 */
export function readEnvironmentLines(
  sql: Sql<'general' | 'guests' | 'transitions'>,
  requests: readonly GrantRequest[],
): Promise<LineAhead[]> {
  return sql.$queryRaw<LineAhead[]>`
    select w.place::int as place, h.waiter, date_part('epoch', h.created_at) * 1000 as "createdAt",
      date_part('epoch', h.valid_until - clock_timestamp()) * 1000 as "lapsesInMs", c.count as "waiterCount"
    from unnest(
      ${requests.map(({ namespace }) => namespace)}::text[],
      ${requests.map(({ name }) => name)}::text[],
      ${requests.map(({ leaseId }) => leaseId)}::uuid[],
      ${requests.map(({ isQueued }) => isQueued === true)}::boolean[]
    ) with ordinality as w0 (namespace, name, lease_id, is_queued, place)
    cross join lateral (select 'environment' as face, w0.*) w
    cross join lateral (
      select o.* ${BEFORE} and ${IS_NOT_FROZEN}
      order by ${placeOf(fragment`o`)}
      limit 1
    ) h
    cross join lateral (
      select count(*)::int as count from (
        select from lease_waiter o
        where o.face = 'environment' and o.namespace = w.namespace ${C} and o.name = w.name ${C}
          and o.valid_until > clock_timestamp()
        limit ${COUNTED_WAITERS_MAX}
      ) o
    ) c`;
}

/** The first half of an advisory lock's key; the second is the schema and the environment. */
const LINE_LOCK = 4_600_003;

/**
 * Lets those who join the line of an environment take turns, until the transaction ends: of two that supersede each
 * other, the second finds the first. A statement of its own, so that the next one sees what was committed before.
 *
 * The statements that follow read by their indexes, as transitions do: tables whose statistics are of when they were empty
 * would be read whole for each row.
 */
export async function takeTurnsInLine(
  tx: Sql<'general'>,
  { namespace, name }: Named,
): Promise<void> {
  await tx.$queryRaw`
    select pg_advisory_xact_lock(
      ${LINE_LOCK}, hashtext(current_schema() || ' ' || ${namespace} || '/' || ${name}))::text as locked,
      set_config('enable_seqscan', 'off', true)`;
}

/**
 * Takes a place in the line for an environment, or joins the one that the request's idempotency key has: see
 * `joinLine`. @returns undefined when the key was used, for a grant, a refusal or another ticket. `isFirst`: the
 * request was never here before.
 */
export async function joinEnvironmentLine(
  tx: Sql<'general'>,
  request: EnvironmentTicketRequest,
): Promise<(Ticket & { readonly isFirst: boolean }) | undefined> {
  const { override } = request;
  const passes = override === undefined ? null : { actor: request.actor, ...override };
  const rows = await tx.$queryRaw<(Ticket & { isFirst: boolean })[]>`
    with request as (
      insert into lease_request as q (id, lease_id, face, fingerprint)
      values (
        lease_request_id(${request.principal}, ${request.idempotencyKey}), ${request.ticketId}::uuid,
        'environment', ${request.fingerprint ?? null}
      )
      -- The record lasts as long as the wait: it is kept for a day since its last repetition.
      on conflict (id) do update set lease_id = excluded.lease_id, created_at = clock_timestamp()
        where q.lease_id = excluded.lease_id and q.answer is null
          and coalesce(q.fingerprint = excluded.fingerprint, true)
      returning q.id, q.xmax = '0' as is_first
    ),
    ticket as (
      insert into lease_waiter as w (
        face, namespace, name, ticket_id, waiter, principal, valid_until,
        action, comment, priority, is_newest_first, override, request_id
      )
      select 'environment', ${request.namespace}, ${request.name}, ${request.ticketId}::uuid, ${request.waiter},
        ${request.principal}, clock_timestamp() + ${ENVIRONMENT_TICKET_MS} * interval '1 millisecond',
        ${request.action}, ${request.comment}, ${request.priority}, ${request.isNewestFirst},
        ${passes === null ? null : JSON.stringify(passes)}::jsonb, q.id
      from request q
      where not ${isFound(fragment`
        select true from lease_event e
        where e.lease_id = ${request.ticketId}::uuid and e.kind in ('granted', 'taken_over')`)}
      on conflict (ticket_id) do update
        set valid_until = clock_timestamp() + ${ENVIRONMENT_TICKET_MS} * interval '1 millisecond'
      returning w.ticket_id, ${placeOf(fragment`w`)} as place
    )
    select w.ticket_id as "ticketId", w.place::float8 as number,
      date_part('epoch', clock_timestamp()) * 1000 as "asOf", q.is_first as "isFirst"
    from ticket w cross join request q`;
  return rows[0];
}

/**
 * How many places in the line for an environment are one caller's: those that count, and all that are kept. Counted up
 * to a bound. Index: `lease_waiter_resource_idx`.
 */
export async function countPlaces(
  tx: Sql<'general'>,
  { namespace, name, principal }: Named & Pick<TicketRequest, 'principal'>,
  countMax: number,
): Promise<{ readonly live: number; readonly kept: number }> {
  const rows = await tx.$queryRaw<{ live: number; kept: number }[]>`
    select count(*) filter (where o.valid_until > clock_timestamp())::int as live, count(*)::int as kept
    from (
      select o.valid_until from lease_waiter o
      where o.face = 'environment' and o.namespace = ${namespace} ${C} and o.name = ${name} ${C}
        and o.principal = ${principal} ${C}
      order by o.id desc
      limit ${countMax}
    ) o`;
  return onlyRow(rows);
}

/** Requests that waited and have been superseded. */
export interface SupersededWaiters {
  /** Their holders, in the order in which they came. */
  readonly waiters: readonly string[];
  /** Whether there may be more. */
  readonly isMore: boolean;
}

/** How many are superseded by one statement: each is five rows, and a statement has two seconds. */
const SUPERSEDED_PER_STATEMENT_MAX = 500;

/**
 * Refuses those who wait for the environment with the same action, came before this request and are of no higher
 * priority, with what each of them is answered from now on, and writes an event of each. Also those whose place has
 * lapsed: they may return, and for a day there may be many. One statement ends a bounded number, the next one others.
 * After {@link takeTurnsInLine}.
 *
 * - **Locks** their requests in the order of their keys, then their tickets, as giving up does, and waits for what is
 *   locked: a grant under way has locked its ticket, and removed it when this has the lock.
 * - **Atomic because** the tickets are gone with the commit: a later grant finds none.
 * - **Index**: `lease_waiter_resource_idx`, `lease_request_pkey`.
 */
export async function supersedeWaiting(
  tx: Sql<'general'>,
  request: EnvironmentTicketRequest,
  answer: object,
): Promise<SupersededWaiters> {
  const rows = await tx.$queryRaw<{ waiter: string | null; isMore: boolean }[]>`
    with request as materialized (
      select k.* from (
        select o.request_id, o.ticket_id from lease_waiter o
        where o.face = 'environment' and o.namespace = ${request.namespace} ${C}
          and o.name = ${request.name} ${C} and o.action = ${request.action}
          and o.ticket_id <> ${request.ticketId}::uuid and o.priority <= ${request.priority}
        order by o.request_id
      ) o
      cross join lateral (
        select q.id, o.ticket_id from lease_request q where q.id = o.request_id for update of q
      ) k
      limit ${SUPERSEDED_PER_STATEMENT_MAX}
    ),
    ticket as materialized (
      select k.* from request q
      cross join lateral (
        select o.ticket_id from lease_waiter o where o.ticket_id = q.ticket_id for update of o
      ) k
    ),
    gone as (
      delete from lease_waiter o
      where o.ticket_id = any(array(select t.ticket_id from ticket t))
      returning o.*
    ),
    answered as (
      insert into lease_request as q (id, answer)
      select g.request_id, ${JSON.stringify(answer)}::jsonb from gone g
      order by g.request_id
      on conflict (id) do update set answer = excluded.answer where q.answer is null
    ),
    fact as (
      -- Of a request that was never granted: it has no token.
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, detail)
      select g.face, g.namespace, g.name, g.ticket_id, 0, 'superseded', ${request.actor},
        jsonb_build_object(
          'holder', g.waiter, 'principal', g.principal, 'action', g.action, 'comment', g.comment,
          'since', g.created_at, 'by', ${request.waiter}::text, 'byComment', ${request.comment}::text)
      from gone g
      order by g.id
    )
    select g.waiter, r.count >= ${SUPERSEDED_PER_STATEMENT_MAX} as "isMore"
    from (select count(*)::int as count from request) r
    left join gone g on true
    order by g.id`;
  return {
    waiters: rows.flatMap(({ waiter }) => waiter ?? []),
    isMore: rows[0]?.isMore === true,
  };
}

/**
 * Waits until a grant of the environment that is being made is committed, and keeps others from being made: then
 * {@link readRunning}, a statement of its own, finds it. Renewals and releases go on. The environment must have a row, see
 * {@link ensureLeaseRow}. Index: `lease_pkey`.
 */
export async function waitForGrant(tx: Sql<'general'>, { namespace, name }: Named): Promise<void> {
  await tx.$queryRaw`
    select true as locked from lease l
    where l.face = 'environment' and l.namespace = ${namespace} ${C} and l.name = ${name} ${C}
    for key share`;
}

/**
 * The grant in force of the environment, if it is for this action and may still be renewed: what a newer request
 * revokes. Read after {@link supersedeWaiting}: what was granted to one of them meanwhile is found. Index: `lease_pkey`.
 */
export async function readRunning(
  tx: Sql<'general'>,
  { namespace, name, action }: Named & Pick<EnvironmentPlace, 'action'>,
): Promise<string | undefined> {
  const rows = await tx.$queryRaw<{ leaseId: string }[]>`
    select l.lease_id as "leaseId"
    from lease l
    where l.face = 'environment' and l.namespace = ${namespace} ${C} and l.name = ${name} ${C}
      and l.tag = ${action} and l.renewable
      and lease_unexpired(l.released_at, l.end_reason, l.expires_at)`;
  return rows[0]?.leaseId;
}

/** A waiter as others see it. Instants are epoch milliseconds of the database. */
export interface QueuedRow {
  readonly ticketId: string;
  readonly waiter: string;
  readonly action: string;
  readonly comment: string | null;
  readonly priority: number;
  readonly isNewestFirst: boolean;
  readonly createdAt: number;
  readonly waitedMs: number;
  /** For how long it keeps its place if its caller does not answer again. */
  readonly lapsesInMs: number;
}

/** Who waits for an environment, in the order in which they come next. Index: `lease_waiter_resource_idx`. */
export function readQueue(
  sql: Sql<'reads'>,
  { namespace, name }: Named,
  limit: number,
): Promise<QueuedRow[]> {
  return sql.$queryRaw<QueuedRow[]>`
    select o.ticket_id as "ticketId", o.waiter, o.action, o.comment, o.priority::int as priority,
      o.is_newest_first as "isNewestFirst", extract(epoch from o.created_at)::float8 * 1000 as "createdAt",
      extract(epoch from clock_timestamp() - o.created_at)::float8 * 1000 as "waitedMs",
      extract(epoch from o.valid_until - clock_timestamp())::float8 * 1000 as "lapsesInMs"
    from lease_waiter o
    where o.face = 'environment' and o.namespace = ${namespace} ${C} and o.name = ${name} ${C}
      and o.valid_until > clock_timestamp()
    order by ${placeOf(fragment`o`)}
    limit ${limit}`;
}

/** A request that was superseded while it waited. Instants are epoch milliseconds of the database. */
export interface SupersededRow {
  readonly waiter: string;
  readonly action: string;
  readonly comment: string | null;
  readonly since: string;
  readonly by: string;
  readonly byComment: string | null;
  readonly at: number;
}

/** Who was superseded within the last day, the newest first. Index: `lease_event_resource_idx`. */
export function readSuperseded(
  sql: Sql<'reads'>,
  { namespace, name }: Named,
  limit: number,
): Promise<SupersededRow[]> {
  return sql.$queryRaw<SupersededRow[]>`
    select v.detail ->> 'holder' as waiter, v.detail ->> 'action' as action, v.detail ->> 'comment' as comment,
      v.detail ->> 'since' as since, v.detail ->> 'by' as by, v.detail ->> 'byComment' as "byComment",
      extract(epoch from v.at)::float8 * 1000 as at
    from lease_event v
    where v.face = 'environment' and v.namespace = ${namespace} ${C} and v.name = ${name} ${C}
      and v.kind = 'superseded' and v.at > clock_timestamp() - interval '1 day'
    order by v.id desc
    limit ${limit}`;
}

/**
 * What a request was superseded with after it was granted, and before its grant ended; undefined if it was not. Index:
 * `lease_event_lease_id_idx`.
 */
export async function readSupersededGrant(
  sql: Sql<'transitions'>,
  leaseId: string,
): Promise<unknown> {
  const rows = await sql.$queryRaw<{ refusal: unknown }[]>`
    select v.detail -> 'superseded' as refusal from lease_event v
    where v.lease_id = ${leaseId}::uuid and v.kind = 'revoked' and v.detail ? 'superseded'
    order by v.id
    limit 1`;
  return rows[0]?.refusal;
}

/** The place of a ticket in its line, from 1, counted up to a bound; undefined when it is not there. */
export async function readPlace(
  sql: Sql<'transitions'>,
  ticketId: string,
): Promise<number | undefined> {
  const rows = await sql.$queryRaw<{ place: number }[]>`
    select 1 + (
      select count(*)::int from (
        select from lease_waiter o
        where o.face = own.face and o.namespace = own.namespace and o.name = own.name
          and o.valid_until > clock_timestamp() and ${placeOf(fragment`o`)} < ${placeOf(fragment`own`)}
        limit ${COUNTED_WAITERS_MAX}
      ) o
    ) as place
    from lease_waiter own
    where own.ticket_id = ${ticketId}::uuid`;
  return rows[0]?.place;
}

/**
 * The newest requests for environments that have superseded others. Whom they find in line they end there, see
 * `supersedeWaiting`; one that has lost a grant before, and asks again, is ended by these records: it would come after them.
 */

/**
 * Records a request as the newest one of its priority that supersedes. After `supersedeWaiting`: a grant that was under way
 * to somebody in line has an event by then. By the numbers of events, because a clock may be stepped.
 */
export async function recordSuperseding(
  tx: Sql<'general'>,
  request: EnvironmentTicketRequest,
  refusal: object,
): Promise<void> {
  await tx.$queryRaw`
    insert into environment_superseding as s (
      namespace, name, action, priority, at, after_event_id, request_id, refusal
    )
    values (
      ${request.namespace}, ${request.name}, ${request.action}, ${request.priority}, clock_timestamp(),
      coalesce(pg_sequence_last_value('lease_event_id_seq'), 0),
      lease_request_id(${request.principal}, ${request.idempotencyKey}), ${JSON.stringify(refusal)}::jsonb
    )
    on conflict (namespace, name, action, priority) do update
      set at = excluded.at, after_event_id = excluded.after_event_id, request_id = excluded.request_id,
        refusal = excluded.refusal
    returning s.priority`;
}

/**
 * Refuses a request whose caller has lost an earlier one, if that was superseded: its grant was revoked for that, or
 * another has come that supersedes since it was granted, or was last in line. Records the refusal, with an event: sent again,
 * it gets the same. Does nothing if it was here before. After `takeTurnsInLine`: who comes later finds it in line.
 *
 * - **Index**: `lease_request_pkey`, `lease_event_lease_id_idx`, `environment_superseding_pkey`.
 *
 * @param lostKey the idempotency key of the earlier request. One that is not known any more was not superseded.
 * @returns whether it is refused.
 */
export async function refuseIfSuperseded(
  tx: Sql<'general'>,
  request: EnvironmentTicketRequest,
  lostKey: string,
): Promise<boolean> {
  const rows = await tx.$queryRaw<unknown[]>`
    with lost as materialized (
      select q.id, q.lease_id, q.created_at, (
          select e.id from lease_event e
          where e.lease_id = q.lease_id and e.kind in ('granted', 'taken_over')
          order by e.id
          limit 1
        ) as event_id
      from lease_request q
      where q.id = lease_request_id(${request.principal}, ${lostKey})
    ),
    superseded as materialized (
      select l.created_at, coalesce(
          (
            select v.detail -> 'superseded' from lease_event v
            where v.lease_id = l.lease_id and v.kind = 'revoked' and v.detail ? 'superseded'
            order by v.id
            limit 1
          ),
          (
            select s.refusal from environment_superseding s
            where s.namespace = ${request.namespace} ${C} and s.name = ${request.name} ${C}
              and s.action = ${request.action} ${C} and s.priority >= ${request.priority}
              and s.request_id <> l.id
              -- One that was never granted was superseded in its line, unless it had left that.
              and coalesce(l.event_id <= s.after_event_id, l.created_at < s.at)
            order by s.after_event_id desc
            limit 1
          )
        ) as refusal
      from lost l
    ),
    refused as (
      insert into lease_request (id, answer, face, fingerprint)
      select lease_request_id(${request.principal}, ${request.idempotencyKey}), s.refusal, 'environment',
        ${request.fingerprint ?? null}
      from superseded s
      where s.refusal is not null
      on conflict (id) do nothing
      returning id
    ),
    fact as (
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, detail)
      select 'environment', ${request.namespace}, ${request.name}, ${request.ticketId}::uuid, 0, 'superseded',
        ${request.actor},
        jsonb_build_object(
          'holder', ${request.waiter}::text, 'principal', ${request.principal}::text,
          'action', ${request.action}::text, 'comment', ${request.comment}::text, 'since', s.created_at,
          'by', s.refusal #> '{error,details,by}', 'byComment', s.refusal #> '{error,details,byComment}')
      from refused r cross join superseded s
    )
    select true from refused`;
  return rows.length > 0;
}
