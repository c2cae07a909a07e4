import { LIMITS } from '../../kernel/limits.ts';
import type { Face, Named, Resource } from '../../kernel/resource.ts';
import { withinLimits, withinNamespace } from '../../lists/index.ts';
import {
  C,
  type Fragment,
  fragment,
  grantRows,
  IS_IN_FORCE,
  type Sql,
} from '../../postgres/sql.ts';
import type { ContentionHolder, ContentionView, FailingCallback } from '../lease-types.ts';

/** A waiter, and those that it waits for. Instants are epoch milliseconds of the database. */
export interface WaiterRow extends Omit<
  ContentionView,
  'since' | 'holders' | 'permits' | 'totalUsed' | 'together' | 'datacenter'
> {
  readonly id: string;
  readonly createdAt: number;
  readonly holders: readonly HolderRow[];
  /** The first leases of its request, this one perhaps among them; none of a request for one. */
  readonly together: readonly Named[];
  readonly togetherCount: number;
  readonly perKey: number | null;
  readonly total: number | null;
  readonly totalUsed: number | null;
}

interface HolderRow extends Omit<ContentionHolder, 'since' | 'waitsFor'> {
  readonly since: number;
  readonly waitsFor: (Resource & { readonly since: number }) | null;
}

/** How many holders of one lease are shown, and up to how many are counted. */
const HOLDERS_SHOWN_MAX = 3;
const HOLDERS_COUNTED_MAX = 1_000;
/** How many of the leases that a request wants besides are named. */
export const TOGETHER_SHOWN_MAX = 3;
/** What the ids of all tickets of one request begin with: see `leaseIdsFrom`. */
const REQUEST_DIGITS = 34;

/**
 * Who waits for whom, the longest wait first, and what the holders wait for themselves: by their name and their
 * token they are the same callers. Lapsed tickets are not shown: their waiters died. Places are counted among all
 * who wait, before the page is cut.
 *
 * Index: `lease_pkey` for the holders, whose slots are beside their scope or before all names of the namespace; the
 * tickets, few beside leases, are read whole.
 */
export async function readContention(
  sql: Sql<'reads'>,
  faces: readonly Face[],
  which: {
    readonly namespace: string;
    readonly namespaces: readonly string[] | null;
    readonly afterId: string | null;
    readonly limit: number;
  },
): Promise<WaiterRow[]> {
  const column = fragment`w.namespace`;
  return sql.$queryRaw<WaiterRow[]>`
    with visible as materialized (
      select w.*, lease_waiter_place(w) as turn, left(w.ticket_id::text, ${REQUEST_DIGITS}::int) as request
      from lease_waiter w
      where w.valid_until > clock_timestamp() and ${withinLimits(which.namespaces, column)}
    ),
    waiting as materialized (
      select w.*, row_number() over (partition by w.face, w.namespace, w.name order by w.turn) as place
      from visible w
      where w.face = any(${[...faces]}::text[]) and ${withinNamespace(which.namespace, column)}
    ),
    on_page as materialized (
      select * from waiting w
      where ${which.afterId}::bigint is null or w.id > ${which.afterId}::bigint
      order by w.id
      limit ${which.limit}
    ),
    ${HELD_ROWS},
    together as materialized (
      select w.request, (array_agg(
          jsonb_build_object('namespace', w.namespace, 'name', w.name) order by w.id
        ))[1:${TOGETHER_SHOWN_MAX + 1}::int] as leases, count(*)::int as count
      from visible w
      group by w.request
      having count(*) > 1
    ),
    declared as materialized (
      select d.namespace, d.permits_per_key, d.permits_total,
        case when d.permits_total is not null then (
          select count(*)::int from lease l
          where l.face = 'lease' and l.namespace = d.namespace
            and l.name > chr(31) ${C} and l.name < ' ' ${C} and ${IS_IN_FORCE}
        ) end as used
      from (select distinct w.namespace from on_page w where w.mode = 'permit') n
      join lease_declaration d on d.namespace = n.namespace
    )
    select w.id::text as id, w.face, w.namespace, w.name, w.waiter, w.mode, w.action,
      ${epochMs(fragment`w.created_at`)} as "createdAt",
      ${epochMs(fragment`clock_timestamp() - w.created_at`)} as "waitedMs",
      w.place::int as place, coalesce(b.holders, '[]') as holders, coalesce(b.among, 0) as "holderCount",
      coalesce(g.leases, '{}') as together, coalesce(g.count, 1) as "togetherCount",
      d.permits_per_key as "perKey", d.permits_total as total, d.used as "totalUsed"
    from on_page w
    left join blocked b on b.face = w.face and b.namespace = w.namespace and b.name = w.name
    left join together g on g.request = w.request
    left join declared d on w.mode = 'permit' and d.namespace = w.namespace
    order by w.id`;
}

function epochMs(instant: Fragment): Fragment {
  return fragment`extract(epoch from ${instant})::float8 * 1000`;
}

/** What a waiter `w` waits for. */
const WAITED_FOR = {
  face: fragment`w.face`,
  namespace: fragment`w.namespace`,
  name: fragment`w.name`,
};

/** `blocked`: who holds what the waiters `on_page` wait for, and what each of them waits for itself. */
const HELD_ROWS = fragment`
    held as materialized (
      select w.face, w.namespace, w.name, h.*
      from (select distinct o.face, o.namespace, o.name from on_page o) w
      cross join lateral (
        select h.lease_id, h.holder, h.principal, h.mode, h.granted_at, h.expires_at,
          count(*) over () as among
        from (${grantRows(WAITED_FOR, { where: IS_IN_FORCE, limit: HOLDERS_COUNTED_MAX })}) h
        order by h.expires_at
        limit ${HOLDERS_SHOWN_MAX}
      ) h
    ),
    -- Two lines of each who waits: of a holder that waits for what it holds, the other one tells more.
    wanted as materialized (
      select * from (
        select w.waiter, w.principal, w.face, w.namespace, w.name, min(w.created_at) as since,
          row_number() over (partition by w.waiter, w.principal order by min(w.id)) as nth
        from visible w
        group by w.waiter, w.principal, w.face, w.namespace, w.name
      ) w
      where w.nth <= 2
    ),
    blocking as (
      select distinct on (h.lease_id) h.*, t.face as next_face, t.namespace as next_namespace,
        t.name as next_name, t.since as next_since
      from held h
      left join wanted t on t.waiter = h.holder and t.principal = h.principal
        and (t.face, t.namespace, t.name) <> (h.face, h.namespace, h.name)
      order by h.lease_id, t.nth
    ),
    blocked as materialized (
      select b.face, b.namespace, b.name, max(b.among)::int as among, jsonb_agg(jsonb_build_object(
          'holder', b.holder, 'mode', b.mode, 'since', ${epochMs(fragment`b.granted_at`)},
          'remainingMs', ${epochMs(fragment`b.expires_at - clock_timestamp()`)},
          'waitsFor', case when b.next_face is not null then jsonb_build_object(
            'face', b.next_face, 'namespace', b.next_namespace, 'name', b.next_name,
            'since', ${epochMs(fragment`b.next_since`)}) end
        ) order by b.expires_at) as holders
      from blocking b
      group by b.face, b.namespace, b.name
    )`;

/** How many wait, by face; a face without waiters has no entry. Reads all tickets: few beside leases. */
export async function countWaiters(sql: Sql<'general'>): Promise<Partial<Record<Face, number>>> {
  const rows = await sql.$queryRaw<{ face: Face; count: number }[]>`
    select w.face, count(*)::int as count
    from lease_waiter w
    where w.valid_until > clock_timestamp()
    group by w.face`;
  return Object.fromEntries(rows.map(({ face, count }) => [face, count]));
}

/** More than this many are counted as this many. */
const FAILING_CALLBACKS_COUNTED_MAX = 10_000;

/** A callback that fails. Instants are epoch milliseconds of the database. */
export interface FailingCallbackRow extends Omit<
  FailingCallback,
  'expiredAt' | 'nextTryAt' | 'droppedAt' | 'datacenter'
> {
  readonly expiredAt: number;
  readonly nextTryAt: number;
}

/**
 * Callbacks that have failed and are tried again, those that are dropped next first. The service is the
 * one that has declared leases of that namespace. Index: `lease_reap_failing_idx`, which has no callback that was
 * never tried, and the primary key of `lease_declaration`.
 */
export function readFailingCallbacks(
  sql: Sql<'reads'>,
  which: {
    readonly namespace: string;
    readonly namespaces: readonly string[] | null;
    readonly after: readonly [expiredAt: string, leaseId: string] | null;
    readonly limit: number;
  },
): Promise<FailingCallbackRow[]> {
  // Not a plain column: `lease_reap_namespace_idx` has all callbacks that were never tried, too.
  const column = fragment`(p.namespace || '')`;
  const [at, id] = which.after ?? [null, null];
  return sql.$queryRaw<FailingCallbackRow[]>`
    select p.lease_id::text as "leaseId", p.namespace, p.name, p.fencing_token::text as "fencingToken",
      d.declared_by as service, p.attempts as tries,
      left(coalesce(p.last_error, ''), ${LIMITS.reasonBytesMax}) as "lastError",
      extract(epoch from p.expired_at)::float8 * 1000 as "expiredAt",
      extract(epoch from p.next_attempt_at)::float8 * 1000 as "nextTryAt"
    from (
      select * from lease_reap p
      where p.attempts > 0
        and (${at}::timestamptz is null or (p.expired_at, p.lease_id) > (${at}::timestamptz, ${id}::uuid))
        and ${withinNamespace(which.namespace, column)} and ${withinLimits(which.namespaces, column)}
      order by p.expired_at, p.lease_id
      limit ${which.limit}
    ) p
    left join lease_declaration d on d.namespace = p.namespace
    order by p.expired_at, p.lease_id`;
}

/** How many fail now, {@link FAILING_CALLBACKS_COUNTED_MAX} at most. Index: `lease_reap_failing_idx`. */
export async function countFailingCallbacks(sql: Sql<'general' | 'guests'>): Promise<number> {
  const rows = await sql.$queryRaw<{ count: number }[]>`
    select count(*)::int as count
    from (select from lease_reap p where p.attempts > 0 limit ${FAILING_CALLBACKS_COUNTED_MAX}) p`;
  return rows[0]?.count ?? 0;
}

/**
 * When the lease expired whose callback fails for longest, as epoch milliseconds of the database; null while
 * none fails. Index: `lease_reap_failing_idx`, its first entry.
 */
export async function failingCallbacksSince(sql: Sql<'guests'>): Promise<number | null> {
  const rows = await sql.$queryRaw<{ since: number | null }[]>`
    select extract(epoch from min(p.expired_at))::float8 * 1000 as since
    from lease_reap p where p.attempts > 0`;
  return rows[0]?.since ?? null;
}
