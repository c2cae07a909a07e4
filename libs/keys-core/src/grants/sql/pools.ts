/**
 * Grants of pools: scopes that several callers hold at once (ADR 53).
 *
 * A pool has an own row, in place of the row of a lease that one holds at a time. It is never granted:
 * `stops_by` holds it back without end, for every other statement and for older versions. Its fencing token
 * is the largest of the pool. Each holder has a row of its own, a *slot*, with all that a lease has; what
 * goes by lease id, such as renewals and releases, need not know of pools. A slot that is free is used again.
 *
 * The slots of a scope are named by the scope and a number. Where all keys of a namespace have a
 * limit together, the slots are those of the namespace, whose own row then decides, and each key's own row
 * only keeps the key from being granted in the ordinary way.
 */
import {
  type GrantRequest,
  type LeaseRow,
  type QueueHead,
  type PoolHolder,
  type SlotMode,
} from '../../kernel/lease.ts';
import { LIMITS } from '../../kernel/limits.ts';
import type { ClockBelief } from '../../postgres/clock/clock-watch.ts';
import { type GrantGuard, IS_ENDED_BY_WORD, isTakable } from '../../postgres/clock/expiry.ts';
import {
  arrayText,
  C,
  type Fragment,
  fragment,
  isFound,
  LEASE_COLUMNS,
  SCOPE_NAME,
  type Sql,
  textArray,
  TOKEN_FLOOR,
} from '../../postgres/sql.ts';
import {
  EXPIRED_CALLBACKS,
  expiredReason,
  grantDetail,
  IS_CONFIRMED,
  requestsEnded,
} from './facts.ts';
import {
  type Granted,
  grantedColumns,
  type GrantedRow,
  grantsOf,
  IS_USED,
  wantedRows,
} from './grant-rows.ts';
import { upsertGrants } from './upsert-grants.ts';

/** A request for a slot. */
export type SlotRequest = GrantRequest & { readonly mode: SlotMode };

/** No name that users choose has this character. Alone it is the name of a namespace's own row. */
const MARK = fragment`chr(31)`;

/** How many holders a refusal names. */
const HOLDERS_SHOWN_MAX = 10;

const SLOTS = {
  columns: fragment`, pool, mode`,
  values: fragment`, c.scope, c.mode`,
  // The own row, which is locked, has the larger tokens of the pool.
  firstToken: fragment`c.fencing_token`,
  nextToken: fragment`excluded.fencing_token`,
  sets: fragment`, pool = excluded.pool, mode = excluded.mode`,
  name: fragment`${SCOPE_NAME}, l.mode`,
};

/** What was granted, and the lease ids of the grants that have run out and whose holders keep their slots locked. */
export interface GrantedSlots extends Granted {
  readonly overstayed: readonly string[];
}

/** Without a grant one row, without a lease id. */
type SlotRow = Omit<GrantedRow, 'leaseId'> & {
  readonly leaseId: string | null;
  readonly overstayed: readonly string[];
};

interface SlotOptions {
  readonly guard: GrantGuard;
  readonly onLocked: 'skip' | 'wait';
  /** How many leases each request is for, if it is for several. */
  readonly leaseCount?: number | undefined;
}

/**
 * Grants each request that has its turn and for which there is room, of any pools.
 *
 * - **One grant of a pool at a time**: everything hangs on the lock of the pool's own row, and on its token
 *   being the one of the statement's snapshot: then that snapshot has every grant of the pool. If another
 *   statement has granted meanwhile, this one grants nothing of the pool and is to be sent again. So it is of
 *   a pool whose own row is locked, unless it waits: it keeps no other pool back.
 * - **Never too many**: a slot counts as free if it was ended by somebody and nobody has locked it since, or if it is
 *   over and could be locked and judged again: a renewal may be under way. One that is locked counts as held.
 * - **In line**: see {@link judgedRows}. A ticket is locked as in `grant`.
 * - **Tokens** of the pool grow by its own row, which the statement writes.
 * - **Order of locking**: tickets, own rows, slots; each by name. Where there is a total, the own rows of keys come last:
 *   a statement that waits for one has the namespace's.
 * - **Index**: the primary keys of `lease`, `lease_request`, `lease_declaration`, `lease_waiter_resource_idx`.
 * - **A request without a row in the answer** was not granted: {@link readPools} tells why. Where only a locked own row
 *   was in the way, nothing is known of its slots.
 */
export async function grantSlots(
  sql: Sql<'guests' | 'slowLane' | 'transitions'>,
  requests: readonly SlotRequest[],
  { guard, onLocked, leaseCount }: SlotOptions,
): Promise<GrantedSlots> {
  const rows = await sql.$queryRaw<SlotRow[]>`
    with ${judgedRows(requests, guard, onLocked)},
    advanced as (
      update lease l
      set fencing_token =
          lease_next_token(greatest(l.fencing_token, e.largest, e.of_keys, ${TOKEN_FLOOR})) + e.count - 1
      from (
        select e.namespace, e.head, count(*) as count, max(u.largest) as largest,
          max(k.fencing_token) as of_keys
        from entitled e
        left join used u on u.namespace = e.namespace and u.head = e.head
        -- Each key's own row has the tokens from before the key belonged to the pool.
        left join lease k on k.face = 'lease' and k.namespace = e.namespace and k.name = e.name
        group by e.namespace, e.head
      ) e
      where l.face = 'lease' and l.namespace = e.namespace and l.name = e.head
      returning l.namespace, l.name as head, l.fencing_token, l.fencing_token - e.count as before
    ),
    -- Where the own row that decides is the namespace's, that of each key is written, too: what deletes it
    -- meanwhile judges it again, or has deleted it, and nothing of the key is granted.
    kept as (
      update lease l
      set fencing_token = greatest(l.fencing_token, a.fencing_token)
      from (
        select e.namespace, e.head, e.name from entitled e where e.head <> e.name
        group by e.namespace, e.head, e.name
      ) e
      join advanced a on a.namespace = e.namespace and a.head = e.head
      where l.face = 'lease' and l.namespace = e.namespace and l.name = e.name
        and l.pool = l.name and l.mode = 'permit'
      returning l.namespace, l.name as scope
    ),
    candidate as materialized (
      select e.lease_id, e.face, e.namespace, e.name as scope, e.mode, e.holder, e.principal, e.tag,
        e.comment, e.metadata, e.ttl_ms, e.first_ms, e.renew_after_ms, e.soft_after_ms,
        e.hard_after_ms, e.home_reservation, a.before + e.turn as fencing_token,
        coalesce(f.name, o.prefix || (coalesce(u.last_number, 0) + e.slot_turn - coalesce(u.free, 0)))
          ${C} as name,
        f.previous_lease_id, f.previous_fencing_token, f.previous_scope, f.is_confirmed
      from entitled e
      join advanced a on a.namespace = e.namespace and a.head = e.head
      join own o on o.namespace = e.namespace and o.head = e.head
      left join used u on u.namespace = e.namespace and u.head = e.head
      left join (
        select s.namespace, s.head, s.name, s.is_confirmed, s.lease_id as previous_lease_id,
          s.fencing_token as previous_fencing_token, s.scope as previous_scope,
          row_number() over (
            partition by s.namespace, s.head
            order by exists (
              select from entitled e
              where e.namespace = s.namespace and e.head = s.head and e.lease_id = s.lease_id
            ) desc, s.number
          ) as turn
        from slot s
        where s.is_free
      ) f on f.namespace = e.namespace and f.head = e.head and f.turn = e.slot_turn
      left join kept k on k.namespace = e.namespace and k.scope = e.name
      where e.head = e.name or k.scope is not null
    ),
    ${upsertGrants(isTakable(guard.belief), SLOTS)},
    -- The one event of each grant that has run out and whose slot was taken.
    expired as (
      select g.face, g.namespace, c.previous_scope as name, c.previous_lease_id as lease_id,
        c.previous_fencing_token as fencing_token, c.is_confirmed
      from granted g
      join candidate c on c.lease_id = g.lease_id
      where g.previous_end in ('lapsed', 'unconfirmed')
    ),
    fact as (
      insert into lease_event (
        face, namespace, name, lease_id, fencing_token, kind, actor, reason, detail
      )
      select f.face, f.namespace, f.name, f.lease_id, f.fencing_token, f.kind, f.actor, f.reason, f.detail
      from (
        select 0 as step, x.face, x.namespace, x.name, x.lease_id, x.fencing_token, 'expired' as kind,
          'leasehold' as actor, ${expiredReason(fragment`x.is_confirmed`)} as reason,
          null::jsonb as detail
        from expired x
        union all
        select 1, g.face, g.namespace, g.name, g.lease_id, g.fencing_token, 'granted', w.actor, null,
          ${grantDetail(fragment`w`)} || jsonb_build_object('mode', g.mode)
        from granted g
        join wanted w on w.lease_id = g.lease_id
      ) f
      order by f.step, f.fencing_token
    ),
    ${EXPIRED_CALLBACKS},
    ${requestsEnded(leaseCount)}
    select k.overstayed, ${grantedColumns(fragment`null::timestamptz`)}
    from (
      select coalesce(jsonb_agg(s.lease_id), '[]') as overstayed from slot s where s.is_overstayed
    ) k
    left join (
      select g.lease_id, g.fencing_token, g.granted_at, g.expires_at,
        null::uuid as previous_lease_id, null::bigint as previous_fencing_token,
        null::text as previous_end
      from granted g
    ) g on true`;
  const granted = rows.filter((row): row is SlotRow & GrantedRow => row.leaseId !== null);
  return { ...grantsOf(granted, requests), overstayed: rows[0]?.overstayed ?? [] };
}

/** What a request for a slot meets. */
export interface MetPool {
  /** Whether the pool exists: see `openPools`. */
  readonly isOpen: boolean;
  /** Whether it has its turn, and there is room. */
  readonly isEntitled: boolean;
  /** How many may hold one key, and all keys together; null where nothing is declared, or no total. */
  readonly perKey: number | null;
  readonly total: number | null;
  /** How many hold the scope, any scope of the pool, and the scope alone. */
  readonly usedOfKey: number;
  readonly usedOfAll: number;
  readonly exclusiveCount: number;
  /**
   * The first of those who wait for a permit of the total, of any key, and how many do. A request for another key is kept
   * back by them alone where nobody holds any.
   */
  readonly head: QueueHead | undefined;
  readonly waiterCount: number;
  readonly holders: readonly PoolHolder[];
  /** The request's own grant; or the one of the scope, or else of the pool, that expires first. */
  readonly by: LeaseRow | undefined;
  /** The same if those that have overstayed count as holders: `by`, or else the first of them. */
  readonly byAtLast: LeaseRow | undefined;
  readonly overstayedOfKey: number;
  readonly overstayedOfAll: number;
  readonly overstayedAlone: number;
}

type MetRow = Omit<MetPool, 'by' | 'byAtLast' | 'head'> & {
  readonly isFree: boolean;
  readonly askedId: string;
  readonly waiter: string | null;
  readonly waitsSince: number;
  readonly lapsesInMs: number;
} & Partial<LeaseRow>;

/**
 * Reads what each request meets, by the same judgement as {@link grantSlots}, and what it would meet if the grants of
 * `overstayed`, of which that has told, were still held. Locks nothing.
 * @returns what was met, by lease id; nothing while the database grants nothing at all.
 */
export async function readPools(
  sql: Sql<'transitions' | 'guests'>,
  requests: readonly SlotRequest[],
  guard: GrantGuard,
  overstayed: readonly string[] = [],
): Promise<Map<string, MetPool>> {
  const rows = await sql.$queryRaw<MetRow[]>`
    with ${judgedRows(requests, guard, { overstayed })},
    -- Those whose key has room: the others keep nobody back.
    first_of_all as materialized (
      select r.namespace, r.head, r.count, t.*
      from (
        select r.namespace, r.head, r.lease_id, count(*) over (partition by r.namespace, r.head) as count,
          row_number() over (partition by r.namespace, r.head order by r.place) as turn
        from roomy r
        where r.step = 0 and r.permits_total is not null
          and r.held_of_key + r.rank <= r.permits_per_key
      ) r
      cross join lateral (
        select t.ticket_id, t.waiter, t.created_at, t.valid_until from lease_waiter t
        where t.ticket_id = r.lease_id
        limit 1
      ) t
      where r.turn = 1
    )
    select w.lease_id as "askedId", o.namespace is not null and ${IS_KEPT} as "isOpen",
      e.lease_id is not null as "isEntitled", w.permits_per_key as "perKey",
      w.permits_total as total, coalesce(k.held, 0)::int as "usedOfKey",
      coalesce(u.held, 0)::int as "usedOfAll", coalesce(k.exclusive, 0)::int as "exclusiveCount",
      f.waiter, extract(epoch from f.created_at)::float8 * 1000 as "waitsSince",
      extract(epoch from f.valid_until - clock_timestamp())::float8 * 1000 as "lapsesInMs",
      coalesce(f.count, 0)::int as "waiterCount", coalesce(h.holders, '[]') as holders,
      coalesce(k.overstayed, 0)::int as "overstayedOfKey",
      coalesce(u.overstayed, 0)::int as "overstayedOfAll",
      coalesce(k.overstayed_alone, 0)::int as "overstayedAlone", coalesce(l.is_free, false) as "isFree",
      ${LEASE_COLUMNS}
    from wanted w
    left join own o on o.namespace = w.namespace and o.head = w.head and o.kind = w.kind
    left join entitled e on e.lease_id = w.lease_id
    left join used u on u.namespace = w.namespace and u.head = w.head
    left join used_of_key k on k.namespace = w.namespace and k.head = w.head and k.scope = w.name
    left join first_of_all f
      on f.namespace = w.namespace and f.head = w.head and f.ticket_id <> w.lease_id
    left join lateral (
      select jsonb_agg(jsonb_build_object(
        'leaseId', s.lease_id, 'fencingToken', s.fencing_token::text, 'holder', s.holder,
        'mode', s.mode,
        'grantedAt', extract(epoch from s.granted_at)::float8 * 1000,
        'expiresAt', extract(epoch from s.expires_at)::float8 * 1000
      ) order by s.granted_at, s.number) as holders
      from (
        select s.* from slot s
        where s.namespace = w.namespace and s.head = w.head and s.scope = w.name and not s.is_free
        order by s.granted_at, s.number
        limit ${HOLDERS_SHOWN_MAX}
      ) s
    ) h on true
    left join lateral (
      select l.*, s.is_free from (
        select s.namespace, s.name, s.is_free from slot s
        where s.namespace = w.namespace and s.head = w.head and (not s.is_free or s.is_overstayed)
        order by s.is_free, s.lease_id = w.lease_id desc, s.scope = w.name desc, s.expires_at
        limit 1
      ) s
      join lease l on l.face = 'lease' and l.namespace = s.namespace and l.name = s.name
      limit 1
    ) l on true`;
  return new Map(
    rows.map(({ askedId, ...row }) => {
      const { isOpen, isEntitled, perKey, total, usedOfKey, usedOfAll, exclusiveCount, ...others } =
        row;
      const { holders, waiter, waitsSince, lapsesInMs, waiterCount, ...found } = others;
      const { overstayedOfKey, overstayedOfAll, overstayedAlone, isFree, ...lease } = found;
      const used = { usedOfKey, usedOfAll, exclusiveCount, holders };
      const overstays = { overstayedOfKey, overstayedOfAll, overstayedAlone };
      const head = waiter === null ? undefined : { waiter, createdAt: waitsSince, lapsesInMs };
      const byAtLast = typeof lease.leaseId === 'string' ? (lease as LeaseRow) : undefined;
      const by = isFree ? undefined : byAtLast;
      const pool = { isOpen, isEntitled, perKey, total, ...used, ...overstays };
      return [askedId, { ...pool, head, waiterCount, by, byAtLast }];
    }),
  );
}

/** What is done about own rows that others have locked; or nothing is locked, and others have told which slots are. */
type Locking = 'skip' | 'wait' | { readonly overstayed: readonly string[] };

/** Whether the own row of a request `w` keeps its key from being granted in the ordinary way. */
const IS_KEPT = fragment`(w.head = w.name or ${isFound(fragment`
  select true from lease l
  where l.face = 'lease' and l.namespace = w.namespace and l.name = w.name
    and l.pool = l.name and l.mode = w.kind`)})`;

/**
 * Whether a request that waits, `t`, takes a permit of the total when its turn comes, as an ordinary one does. One for a
 * key that somebody holds in the ordinary way, from before permits were declared, does not, and keeps nobody back.
 */
const TAKES_PERMIT = fragment`(coalesce(t.mode, 'permit') = 'permit' and ${isFound(fragment`
  select true from lease l
  where l.face = 'lease' and l.namespace = t.namespace and l.name = t.name
    and l.pool = l.name and l.mode = 'permit'`)})`;

/**
 * The rows that judge requests for slots: `wanted`, the pools' `own` rows, each `slot` with whether it is
 * free, how many are `used`, and the `entitled` requests with their turn in the pool.
 *
 * **The line** of a pool are its live tickets by number, and after them the requests that do not wait.
 * Each that is before a request takes what it wants first, granted or not yet. So:
 *
 * - with permits, a request has its turn if there is room for it in its key after all that are before it
 *   for the key, and in the namespace after all before it whose key has room;
 * - a shared one, if nobody holds the scope alone and nobody is before it who wants to;
 * - an exclusive one, if nobody holds the scope, and it is the first.
 */
function judgedRows(
  requests: readonly SlotRequest[],
  { belief, mark }: GrantGuard,
  how: Locking,
): Fragment {
  const queued = arrayText(
    requests.filter(({ isQueued }) => isQueued === true).map(({ leaseId }) => leaseId),
  );
  return fragment`
    wanted as materialized (
      select w.*, m.mode, m.place, case when m.mode = 'permit' then 'permit' else 'shared' end as kind,
        d.permits_per_key, d.permits_total,
        case when m.mode = 'permit' and d.permits_total is not null then ${MARK} else w.name end
          ${C} as head
      from (${wantedRows(requests, mark)}) w
      join unnest(
        ${arrayText(requests.map(({ leaseId }) => leaseId))}::uuid[],
        ${textArray(requests.map(({ mode }) => mode))}::text[]
      ) with ordinality as m (lease_id, mode, place) on m.lease_id = w.lease_id
      left join lateral (
        select d.permits_per_key, d.permits_total from lease_declaration d
        where d.namespace = w.namespace
        limit 1
      ) d on true
    ),
    ${ticketRows(how)},
    ${ownRows(how)},
    ${slotRows(belief, how)},
    used as materialized (
      select s.namespace, s.head, count(*) filter (where not s.is_free) as held,
        count(*) filter (where s.is_free) as free, max(s.number) as last_number,
        max(s.fencing_token) as largest, count(*) filter (where s.is_overstayed) as overstayed
      from slot s
      group by s.namespace, s.head
    ),
    used_of_key as materialized (
      select s.namespace, s.head, s.scope, count(*) filter (where not s.is_free) as held,
        count(*) filter (where not s.is_free and s.mode = 'exclusive') as exclusive,
        count(*) filter (where s.is_overstayed) as overstayed,
        count(*) filter (where s.is_overstayed and s.mode = 'exclusive') as overstayed_alone
      from slot s
      where not s.is_free or s.is_overstayed
      group by s.namespace, s.head, s.scope
    ),
    line as materialized (
      select o.*, t.name as scope, t.ticket_id as lease_id, coalesce(t.mode, 'exclusive') as mode,
        0 as step, t.id as place
      from own o
      cross join lateral (
        select t.* from lease_waiter t
        where t.face = 'lease' and t.namespace = o.namespace
          and t.name between o.first_scope and o.last_scope
          and (t.ticket_id = any(${queued}::uuid[])
            or t.valid_until > clock_timestamp()
              and (o.first_scope = o.last_scope or ${TAKES_PERMIT}))
        offset 0
      ) t
      union all
      select o.*, w.name, w.lease_id, w.mode, 1, w.place
      from wanted w
      join own o on o.namespace = w.namespace and o.head = w.head and o.kind = w.kind
      where not w.is_queued and (w.request_id is null or not ${IS_USED})
        -- One that holds a slot already, as when its answer was lost, takes no other.
        and not exists (select from slot s where s.lease_id = w.lease_id and not s.is_free)
    ),
    ranked as (
      select n.*, coalesce(k.held, 0) as held_of_key, coalesce(k.exclusive, 0) as held_alone,
        row_number() over (
          partition by n.namespace, n.head, n.scope order by n.step, n.place
        ) as rank,
        count(*) filter (where n.mode <> 'shared') over (
          partition by n.namespace, n.head order by n.step, n.place
          rows between unbounded preceding and 1 preceding
        ) as before_alone
      from line n
      left join used_of_key k on k.namespace = n.namespace and k.head = n.head and k.scope = n.scope
    ),
    roomy as (
      select r.*,
        count(*) filter (where r.held_of_key + r.rank <= r.permits_per_key) over (
          partition by r.namespace, r.head order by r.step, r.place
        ) as rank_of_all
      from ranked r
    ),
    entitled as materialized (
      select w.*, row_number() over (
          partition by w.namespace, w.head order by r.step, r.place
        ) as turn,
        row_number() over (
          partition by w.namespace, w.head order by y.number, r.step, r.place
        ) as slot_turn
      from wanted w
      -- Requests of both kinds may be for one scope, which is a pool of one kind.
      join roomy r on r.lease_id = w.lease_id and r.kind = w.kind
      left join ticket t on t.ticket_id = w.lease_id
      left join used u on u.namespace = w.namespace and u.head = w.head
      -- Its slot from before, if that is free: no other row may have the lease id.
      left join slot y on y.namespace = w.namespace and y.head = w.head and y.lease_id = w.lease_id
        and y.is_free
      where (not w.is_queued or t.ticket_id is not null) and ${IS_KEPT}
        and case w.mode
          when 'permit' then r.held_of_key + r.rank <= w.permits_per_key
            and (w.permits_total is null or coalesce(u.held, 0) + r.rank_of_all <= w.permits_total)
          when 'shared' then r.held_alone = 0 and r.before_alone = 0
            and r.held_of_key + r.rank <= ${LIMITS.sharedHoldersMax}::int
          else r.held_of_key = 0 and r.rank = 1
        end
    )`;
}

function isLocking(how: Locking): how is 'skip' | 'wait' {
  return typeof how === 'string';
}

/** The tickets of requests that wait. One that has become a grant before is no turn: see `grant`. */
function ticketRows(how: Locking): Fragment {
  return fragment`
    ticket as materialized (
      select t.*
      from (select w.* from wanted w where w.is_queued order by w.lease_id) w
      cross join lateral (
        select t.ticket_id from lease_waiter t
        where t.ticket_id = w.lease_id
          and t.face = w.face and t.namespace = w.namespace and t.name = w.name
          and not exists (
            select from lease_event e
            where e.lease_id = t.ticket_id and e.kind in ('granted', 'taken_over')
          )
        ${isLocking(how) ? fragment`for update of t skip locked` : fragment`limit 1`}
      ) t
    )`;
}

/**
 * The own rows of the pools that are wanted. Locked, they are those whose token is still the one of the
 * snapshot; `first_scope` and `last_scope` are between which scopes the pool's line is.
 */
function ownRows(how: Locking): Fragment {
  const locked = fragment`
      cross join lateral (
        select from lease l
        where l.face = 'lease' and l.namespace = s.namespace and l.name = s.head
          and l.pool = l.name and l.mode = s.kind and l.fencing_token = s.version
        for update of l ${how === 'skip' ? fragment`skip locked` : fragment``}
      ) k`;
  return fragment`
    seen as materialized (
      select p.*, l.version,
        (case when p.head = ${MARK} then p.head else p.head || ${MARK} end) ${C} as prefix,
        (case when p.head = ${MARK} then ' ' else p.head || ' ' end) ${C} as prefix_end,
        (case when p.head = ${MARK} then '' else p.head end) ${C} as first_scope,
        -- The last character there is.
        (case when p.head = ${MARK} then chr(1114111) else p.head end) ${C} as last_scope
      from (
        select distinct w.namespace, w.head, w.kind, w.permits_per_key, w.permits_total from wanted w
      ) p
      cross join lateral (
        select l.fencing_token as version from lease l
        where l.face = 'lease' and l.namespace = p.namespace and l.name = p.head
          and l.pool = l.name and l.mode = p.kind
        limit 1
      ) l
    ),
    own as materialized (
      select s.* from (select s.* from seen s order by s.namespace, s.head) s
      ${isLocking(how) ? locked : fragment``}
    )`;
}

/** The slots of those pools, after their own rows. */
function slotRows(belief: ClockBelief, how: Locking): Fragment {
  const judged = fragment`
      cross join lateral (
        select from lease l
        where l.face = 'lease' and l.namespace = s.namespace and l.name = s.name
          and ${isTakable(belief)}
        for update of l skip locked
      ) k`;
  // Over by time, as in `granting.ts`. That a row has an `xmax` does not tell: a lock that is over leaves it, and so does
  // the statement that has ended the grant.
  const isOverstayed = isLocking(how)
    ? fragment`(x.name is null and s.is_takable and coalesce(s.end_reason, 'expired') = 'expired')`
    : fragment`(x.name is not null and s.lease_id = any(${arrayText(how.overstayed)}::uuid[]))`;
  return fragment`
    seen_slot as materialized (
      select o.head, l.*
      from own o
      cross join lateral (
        select l.namespace, l.name, l.pool as scope, l.mode, l.lease_id, l.fencing_token, l.holder,
          l.granted_at, l.expires_at, l.end_reason, substr(l.name, length(o.prefix) + 1)::int as number,
          -- One with a locker, as fenced work that goes on after a revocation, is judged with those that have run out.
          coalesce(${IS_ENDED_BY_WORD} and l.xmax = '0', false) as is_ended,
          coalesce(${isTakable(belief)}, false) as is_takable, ${IS_CONFIRMED}
        from lease l
        where l.face = 'lease' and l.namespace = o.namespace
          and l.name > o.prefix and l.name < o.prefix_end
        offset 0
      ) l
    ),
    -- Judged again once they are locked.
    lapsed as materialized (
      select s.namespace, s.name
      from (
        select s.* from seen_slot s
        where not s.is_ended and s.is_takable
        order by s.namespace, s.name
      ) s
      ${isLocking(how) ? judged : fragment``}
    ),
    slot as materialized (
      select s.*, s.is_ended or x.name is not null as is_free, ${isOverstayed} as is_overstayed
      from seen_slot s
      left join lapsed x on x.namespace = s.namespace and x.name = s.name
    )`;
}
