import { LeaseError } from '../../kernel/errors.ts';
import type { GrantRequest, LeaseRow, QueueHead } from '../../kernel/lease.ts';
import type { Resource } from '../../kernel/resource.ts';
import { type GrantGuard, IS_ENDED_BY_WORD, isTakable } from '../../postgres/clock/expiry.ts';
import {
  C,
  type Fragment,
  fragment,
  isFound,
  LEASE_COLUMNS,
  NO_FRAGMENT,
  type Sql,
  TOKEN_FLOOR,
} from '../../postgres/sql.ts';
import { andItsTurn } from './environment-line.ts';
import { GRANT_EVENTS, grantDetail, grantFacts } from './facts.ts';
import { andNotFrozen, andOverridden } from './freezes.ts';
import {
  andNoPermits,
  ENDED_AT,
  type Granted,
  grantedColumns,
  type GrantedRow,
  grantsOf,
  HAS_PERMITS,
  IS_AWAITED,
  IS_USED,
  lockedTickets,
  wantedRows,
} from './grant-rows.ts';
import { type HoldOff, holdOffRow } from './guard.ts';
import { freeCandidates, insertedInOrder, setInstants, upsertGrants } from './upsert-grants.ts';

export interface GrantOptions {
  readonly guard: GrantGuard;
  /** What to do about a row that another transaction has locked. */
  readonly onLocked: 'skip' | 'wait';
}

/**
 * Grants each resource that is free, released, ended or expired to the caller.
 *
 * - **Locks**: only rows that it takes. A resource that is held is refused by a plain read: a
 *   refused acquire that locked the holder's row was seen to cost a third party its healthy lease.
 *   Rows are locked in the order (face, namespace, name), as in every batch statement.
 * - **Atomic because** {@link upsertGrants} judges after the row lock. What `takable` saw before is only a
 *   choice of candidates.
 * - **Index**: the primary key, for candidates and for the conflict.
 * - **In line**: nobody gets a lease while an earlier caller waits for it. A request that
 *   waits in line locks its ticket, is granted in its turn, and its ticket goes with the grant.
 *   Order of locking: ticket, then lease.
 * - **One key, one attempt**: a request whose idempotency key has been used is not granted; one that
 *   is granted records its key here. Two at once with one key: the second fails on the primary key
 *   of `lease_request`, and finds the record when it is tried again.
 * - **A request without a row in the answer** was not granted: it is held, others are before it in line, its
 *   key was used, it is not at home, or its row was locked or changed meanwhile. The caller reads which.
 *
 * - **Not by permits**: a lease whose number of permits is declared is no ordinary one, see `pools.ts`.
 * - **Not frozen**: {@link andNotFrozen} judges a request for an environment once its row is locked. Its turn is judged
 *   again then: a freeze that has ended meanwhile passes over nobody who came before any more.
 *
 * A takeover of a grant that nobody has ended writes that grant's one `expired` event, and its one
 * `lease_reap` row when it is a lease: a reaper that comes later finds nothing left to do. For one that
 * was never confirmed it writes only the event.
 *
 * - **At home**: a key is granted under an active reservation, and the row remembers which. A row that
 *   was sealed by a move names another one, and nothing is granted on it. See `reservations/sql/moves.ts`.
 *
 * `requests` must name each resource once. Most grants are made by {@link grantFree} and do not come here.
 */
export async function grant(
  sql: Sql<'guests' | 'slowLane' | 'transitions'>,
  requests: readonly GrantRequest[],
  options: GrantOptions,
): Promise<Granted> {
  const skip = options.onLocked === 'skip' ? fragment`skip locked` : NO_FRAGMENT;
  const { belief, mark } = options.guard;
  const rows = await sql.$queryRaw<GrantedRow[]>`
    with wanted as materialized (${wantedRows(requests, mark)}),
    ${lockedTickets(skip)},
    entitled as materialized (
      select w.*
      from wanted w
      left join ticket t on w.is_queued and t.ticket_id = w.lease_id
      where (not w.is_queued or t.ticket_id is not null)
        -- Nobody passes a live waiter who came before.
        and (w.face <> 'lease' or not ${isFound(fragment`
          select true from lease_waiter o
          where o.face = w.face and o.namespace = w.namespace and o.name = w.name
            and o.valid_until > clock_timestamp() and (t.id is null or o.id < t.id)`)})${andItsTurn(requests)}${andNoPermits(requests)}
        and (w.home_reservation is null or (${IS_ACTIVE_HOME} and not exists (${NOT_READ_BACK})))
        and (w.is_queued or w.request_id is null or not ${IS_USED})
    ),
    -- Row by row in the order of locking: lateral, so that however large the table is, each resource
    -- is one probe of the primary key.
    takable as materialized (
      select w.lease_id as wanted_id, t.lease_id, t.ended_at
      from (
        select w.lease_id, w.face, w.namespace, w.name, w.home_reservation
        from entitled w order by w.face, w.namespace, w.name
      ) w
      cross join lateral (
        select l.lease_id,
          ${ENDED_AT} as ended_at
        from lease l
        where l.face = w.face and l.namespace = w.namespace and l.name = w.name
          and ${isTakable(belief)}
          and (l.home_reservation is null or l.home_reservation = w.home_reservation)
        for update of l ${skip}
      ) t
    ),
    candidate as (
      select w.*
      from entitled w
      left join lateral (
        select true as is_known from lease l
        where l.face = w.face and l.namespace = w.namespace and l.name = w.name
        limit 1
      ) k on true
      where k.is_known is null${andNotFrozen(requests)}${andItsTurn(requests)}
      union all
      -- A full join, as in the statement for free rows: an inner one compared a hundred with a hundred.
      select w.* from entitled w
      full join takable t on t.wanted_id = w.lease_id
      where coalesce(t.wanted_id is not null, false)${andNotFrozen(requests)}${andItsTurn(requests)}
    ),
    ${upsertGrants(isTakable(belief))},
    ${grantFacts(andOverridden(requests))}
    select ${grantedColumns(fragment`t.ended_at`)}
    from granted g
    left join takable t on t.lease_id = g.previous_lease_id`;
  return grantsOf(rows, requests);
}

/** Whether {@link grantFree} can grant a request: it does not wait in line, names no reservation, and overrides nothing. */
export function isPlain({ isQueued, homeReservation, override }: GrantRequest): boolean {
  return isQueued !== true && homeReservation === undefined && override === undefined;
}

/**
 * Grants each resource that nobody ever held, or whose last grant somebody has ended, and for which
 * nobody waits: what most requests meet. Whatever it does not grant may still be granted by the full
 * statement, {@link grant}, which costs twice as much: one that ended by time alone,
 * a place in line, a key at home here.
 *
 * - **Does not lock first**, and so writes each row once and not twice: a lock is a record of its own in the
 *   write-ahead log. It takes only rows that have no locker (`xmax`) in the statement's snapshot, in the order
 *   (face, namespace, name), and passes over the others. One that gets a locker in the moment in
 *   between is waited for, up to the connection's `lock_timeout`.
 * - **Atomic because** the update judges again a row that was changed in between, and takes it only if it still has
 *   the grant that was seen in it; and an insert that meets a row does nothing.
 * - **The token** is computed in SET from the newest version of the row.
 * - **Between the two statements** anything may happen: the second one judges by itself.
 * - **Index**: the primary keys of `lease` and `lease_request`, `lease_waiter_resource_idx`.
 *
 * `requests` must be plain, and name each resource once.
 */
export async function grantFree(
  sql: Sql<'transitions'>,
  requests: readonly GrantRequest[],
  mark: GrantGuard['mark'],
): Promise<Granted> {
  const rows = await sql.$queryRaw<GrantedRow[]>`
    with wanted as materialized (
      select w.* from (${wantedRows(requests, mark)}) w order by w.face, w.namespace, w.name
    ),
    candidate as materialized (
      select w.*, k.*
      from wanted w
      left join lateral (
        select l.ctid as row_at, l.released_at as ended_at, l.lease_id as previous_lease_id,
          l.fencing_token as previous_fencing_token, l.end_reason as previous_end,
          -- Without a locker, and not changed meanwhile: the update need not wait for it.
          ${IS_ENDED_BY_WORD} and l.xmax = '0' as is_free
        from lease l
        where l.face = w.face and l.namespace = w.namespace and l.name = w.name
        limit 1
      ) k on true
      where k.is_free is distinct from false
        and (w.face <> 'lease' or not ${IS_AWAITED})
        and (w.request_id is null or not ${IS_USED})
        ${andNoPermits(requests)}${andItsTurn(requests)}${andNotFrozen(requests)}
    ),
    made as (
      update lease l
      set lease_id = c.lease_id,
          fencing_token = lease_next_token(greatest(l.fencing_token, ${TOKEN_FLOOR})),
          holder = c.holder, principal = c.principal, tag = c.tag, comment = c.comment,
          metadata = c.metadata, ttl_ms = c.ttl_ms, renew_after_ms = c.renew_after_ms,
          soft_after_ms = c.soft_after_ms, hard_after_ms = c.hard_after_ms,
          ${setInstants(fragment`c.first_ms * interval '1 millisecond'`)},
          renewable = true, released_at = null, end_reason = null
      from candidate c
      -- A row that was changed since is judged again. By nothing that an index could be read through for.
      where l.ctid = c.row_at and l.lease_id is not distinct from c.previous_lease_id
        and ${IS_ENDED_BY_WORD}
        and l.home_reservation is null
      returning
        l.face, l.namespace, l.name, l.lease_id, l.fencing_token, l.granted_at, l.expires_at,
        l.holder, l.principal, l.tag, l.comment, c.actor, c.request_id, c.fingerprint, c.ended_at,
        c.previous_lease_id, c.previous_fencing_token, c.previous_end
    ),
    first as (
      insert into lease as l (
        face, namespace, name, lease_id, fencing_token, holder, principal, tag, comment, metadata,
        ttl_ms, renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at
      )
      select
        c.face, c.namespace, c.name, c.lease_id, lease_next_token(${TOKEN_FLOOR}), c.holder,
        c.principal, c.tag, c.comment, c.metadata, c.ttl_ms, c.renew_after_ms, c.soft_after_ms, c.hard_after_ms,
        c.now, c.now, c.now + c.first_ms * interval '1 millisecond'
      from ${insertedInOrder(fragment`c.row_at is null`)}
      on conflict (face, namespace, name) do nothing
      returning
        l.face, l.namespace, l.name, l.lease_id, l.fencing_token, l.granted_at, l.expires_at,
        l.holder, l.principal, l.tag, l.comment
    ),
    granted as materialized (
      select * from made
      union all
      -- With what only the request has. An inner join of rows that PostgreSQL expects to be ten would compare
      -- a hundred with a hundred; a full one can only be carried out by hashing or sorting. A condition
      -- that null could not fulfil would make it an inner one.
      select f.*, c.actor, c.request_id, c.fingerprint, null, null, null, null
      from first f
      full join (select * from candidate c where c.row_at is null) c on c.lease_id = f.lease_id
      where coalesce(f.lease_id is not null, false)
    ),
    fact as (
      insert into lease_event (face, namespace, name, lease_id, fencing_token, kind, actor, detail)
      select m.face, m.namespace, m.name, m.lease_id, m.fencing_token, 'granted', m.actor,
        ${grantDetail(fragment`m`)}
      from granted m
    ),
    request as (
      insert into lease_request (id, lease_id, face, fingerprint)
      select m.request_id, m.lease_id, m.face, m.fingerprint
      from granted m
      where m.request_id is not null
      order by m.request_id
    )
    select ${grantedColumns(fragment`g.ended_at`)} from granted g`;
  return grantsOf(rows, requests);
}

/**
 * Waits for the row of a resource that may be granted, and locks it, so that a {@link grant} that follows in the
 * transaction sees whatever was committed under its lock, as a newer request's place in line: see `waitForGrant`. Of one
 * that is held it locks nothing. Only for a request without a ticket: tickets are locked before rows. Index: `lease_pkey`.
 */
export async function lockTakable(
  sql: Sql<'slowLane'>,
  { face, namespace, name }: Resource,
  { belief }: Pick<GrantGuard, 'belief'>,
): Promise<void> {
  await sql.$queryRaw`
    select true as locked from lease l
    where l.face = ${face} ${C} and l.namespace = ${namespace} ${C} and l.name = ${name} ${C} and ${isTakable(belief)}
    for update`;
}

const IS_RELEASED = fragment`(l.end_reason = 'released' and l.stops_by is null)`;

/**
 * Grants a key that nobody ever held, or whose last holder released it, as the rows `granted`, with its
 * event. `ended_at` of `candidate` is when it was released. No row: {@link grant} says more.
 *
 * - **Locks**: the key's row, and only if it takes it. It passes over a locked one.
 * - **Atomic because** {@link upsertGrants} judges after the row lock.
 * - **Index**: the primary keys.
 *
 * @param after the name of a query that the grant comes after: without a row there, nothing is granted.
 */
export function grantReleasedKey(
  request: GrantRequest,
  mark: GrantGuard['mark'],
  after: Fragment,
): Fragment {
  return fragment`
    wanted as materialized (
      select w.* from (${wantedRows([request], mark)}) w cross join ${after}
    ),
    ${freeCandidates(
      IS_RELEASED,
      fragment`(w.home_reservation is null or (${IS_ACTIVE_HOME} and not exists (${NOT_READ_BACK})))`,
    )},
    ${upsertGrants(IS_RELEASED)},
    ${GRANT_EVENTS}`;
}

/**
 * Makes sure that a resource has a row, of a grant that is over.
 *
 * For use before a grant in a transaction that stays open because callers' code runs in it: other
 * callers skip an existing row that is locked there, but cannot skip one that is just being inserted,
 * so that whole batches of theirs would wait for it. Zero rows: it had one. **Index**: the primary key.
 */
export async function ensureLeaseRow(
  sql: Sql<'general' | 'transitions'>,
  resource: Resource,
): Promise<void> {
  await sql.$queryRaw`
    insert into lease (
      face, namespace, name, lease_id, fencing_token, holder, principal,
      ttl_ms, renew_after_ms, soft_after_ms, hard_after_ms,
      granted_at, renewed_at, expires_at, released_at, end_reason
    )
    select
      r.face, r.namespace, r.name, gen_random_uuid(), lease_next_token(${TOKEN_FLOOR}), '', '', 4, 1, 2, 3,
      r.at, r.at, r.at, r.at, 'removed'
    from (
      select ${resource.face}::text ${C} as face, ${resource.namespace}::text ${C} as namespace,
        ${resource.name}::text ${C} as name, clock_timestamp() as at
    ) r
    where not exists (
      select from lease l where l.face = r.face and l.namespace = r.namespace and l.name = r.name
    )
    on conflict do nothing
    returning 1 as placed`;
}

/**
 * Yields a row while this database, after a restore or a failover, has not yet learned from the
 * reservation store which keys had left it: it may wrongly take itself for the home of one.
 */
const NOT_READ_BACK = fragment`
  select from reservation_membership m
  cross join database_epoch e
  where m.store_id is not null and m.synced_epoch is distinct from e.epoch`;

/**
 * Whether the reservation that a request `w` names is the active home of its key here. A reservation
 * that is absent was not activated yet; the lease row shows whether the key has left since.
 */
const IS_ACTIVE_HOME = fragment`
  coalesce((
    select r.state = 'active' and r.namespace = w.namespace and r.name = w.name
    from reservation r
    where r.reservation_id = w.home_reservation
    limit 1
  ), false)`;

/**
 * @throws {LeaseError} `reservation.store_unreachable` while a restored database has not yet learned which
 * keys had left it: the reservation store has not answered.
 */
export async function assertReadBack(sql: Sql<'transitions'>): Promise<void> {
  const [row] = await sql.$queryRaw<{ one: number }[]>`
    select 1 as one where exists (${NOT_READ_BACK})`;
  if (row !== undefined) {
    throw new LeaseError(
      'reservation.store_unreachable',
      'The database was restored or failed over, and it is not yet known from the reservation store which keys had left it.',
    );
  }
}

/**
 * Whether a key may be granted under the reservation that the request names: it is the key's active home
 * here, and the key's row, if there is one, names no other. Index: the primary keys.
 */
export async function isAtHome(
  sql: Sql<'transitions'>,
  { namespace, name, homeReservation }: GrantRequest,
): Promise<boolean> {
  const rows = await sql.$queryRaw<{ one: number }[]>`
    select 1 as one
    from (
      select ${namespace} ${C} as namespace, ${name} ${C} as name, ${homeReservation} ${C} as home_reservation
    ) w
    where ${IS_ACTIVE_HOME} and not exists (
      select from lease l
      where l.face = 'key' and l.namespace = w.namespace and l.name = w.name
        and l.home_reservation <> w.home_reservation
    )`;
  return rows.length > 0;
}

/** How many waiters a refusal counts at most. */
const COUNTED_WAITERS_MAX = 1_000;

/** Everything that can be a reason why a request was not granted, from one snapshot. */
export interface Refusal {
  /** The resource's row, or undefined when nobody ever held it. */
  readonly row: LeaseRow | undefined;
  /** The first live waiter that is before the request in line. */
  readonly head: QueueHead | undefined;
  readonly waiterCount: number;
  /** Whether its idempotency key was used before. */
  readonly isRecorded: boolean;
  /** Whether a number of permits is declared for the lease. */
  readonly hasPermits: boolean;
}

/** What was read, and whether the database grants nothing at all. */
export interface Refusals {
  /** In the order asked. */
  readonly refusals: readonly Refusal[];
  readonly holdOff: HoldOff | undefined;
}

type RefusalRow = Partial<LeaseRow> & {
  place: number;
  holdOffMs: number | null;
  isHoldOffNoted: boolean | null;
  waiterCount: number;
  headWaiter: string | null;
  headCreatedAt: number | null;
  headLapsesInMs: number | null;
  isRecorded: boolean;
  hasPermits: boolean;
};

/**
 * Reads why each request was refused. A plain read: it locks nothing.
 *
 * A request that waits in line is recorded only when its ticket is gone: it was cancelled, or a
 * replay of it was granted. Each read of a table is limited to a row, so that PostgreSQL probes an index
 * for each request, and cannot join it as a whole. **Index**: the primary keys, `lease_waiter_resource_idx`,
 * `lease_waiter_ticket_id_key`.
 */
export async function readRefusals(
  sql: Sql<'general' | 'guests' | 'transitions'>,
  requests: readonly GrantRequest[],
  mark: GrantGuard['mark'],
): Promise<Refusals> {
  const rows = await sql.$queryRaw<RefusalRow[]>`
    select w.place::int as place, ${LEASE_COLUMNS},
      case when l.pool = l.name then l.mode end as "poolKind",
      d."remainingMs" as "holdOffMs", d."isNoted" as "isHoldOffNoted",
      coalesce(c.count, 0) as "waiterCount",
      h.waiter as "headWaiter", date_part('epoch', h.created_at) * 1000 as "headCreatedAt",
      date_part('epoch', h.valid_until - clock_timestamp()) * 1000 as "headLapsesInMs",
      q.id is not null as "isRecorded", ${HAS_PERMITS} as "hasPermits"
    from unnest(
      ${requests.map((request) => request.face)}::text[],
      ${requests.map((request) => request.namespace)}::text[],
      ${requests.map((request) => request.name)}::text[],
      ${requests.map((request) => request.leaseId)}::uuid[],
      ${requests.map((request) => request.principal)}::text[],
      ${requests.map((request) => request.idempotencyKey ?? null)}::text[],
      ${requests.map((request) => request.isQueued === true)}::boolean[]
    ) with ordinality as w (face, namespace, name, lease_id, principal, idempotency_key, is_queued, place)
    left join lateral (
      select l.* from lease l
      where l.face = w.face ${C} and l.namespace = w.namespace ${C} and l.name = w.name ${C}
      limit 1
    ) l on true
    left join lateral (
      select t.id from lease_waiter t where w.is_queued and t.ticket_id = w.lease_id limit 1
    ) own on true
    left join lateral (
      select o.waiter, o.created_at, o.valid_until from lease_waiter o
      where w.face = 'lease' and o.face = w.face ${C} and o.namespace = w.namespace ${C}
        and o.name = w.name ${C} and o.valid_until > clock_timestamp()
        and o.ticket_id <> w.lease_id and (own.id is null or o.id < own.id)
      order by o.id
      limit 1
    ) h on true
    left join lateral (
      select count(*)::int as count from (
        select from lease_waiter o
        where w.face = 'lease' and not w.is_queued and o.face = w.face ${C}
          and o.namespace = w.namespace ${C} and o.name = w.name ${C}
          and o.valid_until > clock_timestamp()
        limit ${COUNTED_WAITERS_MAX}
      ) o
    ) c on true
    left join lateral (
      select q.id from lease_request q
      where q.id = lease_request_id(w.principal, w.idempotency_key)
        and (q.lease_id is distinct from w.lease_id or (w.is_queued and own.id is null))
      limit 1
    ) q on true
    left join (${holdOffRow(mark)} limit 1) d on true`;
  const refusals = requests.map((): Refusal => ({
    row: undefined,
    head: undefined,
    waiterCount: 0,
    isRecorded: false,
    hasPermits: false,
  }));
  let holdOff: HoldOff | undefined;
  for (const { place, holdOffMs, isHoldOffNoted, ...row } of rows) {
    refusals[place - 1] = refusalOf(row);
    if (holdOffMs !== null) holdOff = { remainingMs: holdOffMs, isNoted: isHoldOffNoted === true };
  }
  return { refusals, holdOff };
}

function refusalOf(row: Omit<RefusalRow, 'place' | 'holdOffMs' | 'isHoldOffNoted'>): Refusal {
  const { waiterCount, headWaiter, headCreatedAt, headLapsesInMs, ...others } = row;
  const { isRecorded, hasPermits, ...lease } = others;
  return {
    row: typeof lease.leaseId === 'string' ? (lease as LeaseRow) : undefined,
    head:
      headWaiter === null || headCreatedAt === null
        ? undefined
        : { waiter: headWaiter, createdAt: headCreatedAt, lapsesInMs: headLapsesInMs ?? 0 },
    waiterCount,
    isRecorded,
    hasPermits,
  };
}
