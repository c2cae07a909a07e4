import { LIMITS } from '../../kernel/limits.ts';
import type { Face } from '../../kernel/resource.ts';
import { withinLimits, withinNamespace } from '../../lists/index.ts';
import { C, type Fragment, fragment, type Sql } from '../../postgres/sql.ts';
import type { ContentionView, FailingCallback } from '../lease-types.ts';

/** A waiter, and the holder that it waits for. Instants are epoch milliseconds of the database. */
export interface WaiterRow extends Omit<ContentionView, 'since' | 'heldSince' | 'datacenter'> {
  readonly id: string;
  readonly createdAt: number;
  readonly heldSince: number | null;
}

/**
 * Who waits for whom, the longest wait first; of several holders of one lease, the one whose grant expires first. Lapsed tickets are not shown: their waiters
 * died. Places are counted among all who wait, before the page is cut. Index: `lease_pkey` for the
 * holders, whose slots are beside their scope or before all names of the namespace; the tickets, few beside leases, are read whole.
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
    with waiting as materialized (
      select w.*, row_number() over (
          partition by w.face, w.namespace, w.name order by lease_waiter_place(w)
        ) as place
      from lease_waiter w
      where w.face = any(${[...faces]}::text[]) and w.valid_until > clock_timestamp()
        and ${withinNamespace(which.namespace, column)} and ${withinLimits(which.namespaces, column)}
    )
    select w.id::text as id, w.face, w.namespace, w.name, w.waiter,
      extract(epoch from w.created_at)::float8 * 1000 as "createdAt",
      extract(epoch from clock_timestamp() - w.created_at)::float8 * 1000 as "waitedMs",
      w.place::int as place, l.holder,
      extract(epoch from l.granted_at)::float8 * 1000 as "heldSince",
      coalesce(extract(epoch from l.expires_at - clock_timestamp())::float8 * 1000, 0) as "remainingMs"
    from (
      select * from waiting w
      where ${which.afterId}::bigint is null or w.id > ${which.afterId}::bigint
      order by w.id
      limit ${which.limit}
    ) w
    left join lateral (
      select h.holder, h.granted_at, h.expires_at
      from (${holderOf(fragment`l.name = w.name`)}
        union all ${holderOf(fragment`l.name > w.name || chr(31) and l.name < w.name || ' '`)}
        union all ${holderOf(fragment`l.name > chr(31) ${C} and l.name < ' ' ${C} and l.pool = w.name`)}
      ) h
      order by h.expires_at
      limit 1
    ) l on true
    order by w.id`;
}

/** Who holds the lease that a waiter `w` waits for, among the rows with such names. */
function holderOf(names: Fragment): Fragment {
  return fragment`(
    select l.holder, l.granted_at, l.expires_at from lease l
    where l.face = w.face and l.namespace = w.namespace and ${names}
      and lease_unexpired(l.released_at, l.end_reason, l.expires_at)
    order by l.expires_at
    limit 1
  )`;
}

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
