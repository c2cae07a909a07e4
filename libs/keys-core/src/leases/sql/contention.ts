import type { ContentionView } from '../lease-views.ts';
import type { Face } from '../../kernel/resource/resource.ts';
import { withinLimits, withinNamespace } from '../../lists/index.ts';
import { fragment, type Sql } from '../../postgres/sql.ts';

/** A waiter, and the holder that it waits for. Instants are epoch milliseconds of the database. */
export interface WaiterRow extends Omit<ContentionView, 'since' | 'heldSince' | 'datacenter'> {
  readonly id: string;
  readonly createdAt: number;
  readonly heldSince: number | null;
}

/**
 * Who waits for whom, the longest wait first. Lapsed tickets are not shown: their waiters
 * died. Places are counted among all who wait, before the page is cut. Index: `lease_pkey` for the
 * holders; the tickets, few beside leases, are read whole.
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
      select w.*, row_number() over (partition by w.face, w.namespace, w.name order by w.id) as place
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
    left join lease l
      on l.face = w.face and l.namespace = w.namespace and l.name = w.name
      and lease_unexpired(l.released_at, l.end_reason, l.expires_at)
    order by w.id`;
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
