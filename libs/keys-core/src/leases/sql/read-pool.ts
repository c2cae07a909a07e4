import type { PoolHolder, PoolUse, SlotMode } from '../../kernel/pool.ts';
import type { Named } from '../../kernel/resource.ts';
import { type ListedLease, withinLimits } from '../../lists/index.ts';
import { C, LEASE_COLUMNS, type Sql } from '../../postgres/sql.ts';

/** How many holders of one lease are shown. */
const HOLDERS_SHOWN_MAX = 100;

export interface PoolFound {
  readonly use: PoolUse;
  /** The holder whose grant expires first, or the pool's own row, which is free. */
  readonly row: ListedLease;
}

type PoolRow = Omit<ListedLease, 'pool' | 'mode'> & {
  readonly pool: string;
  readonly mode: SlotMode;
  readonly perKey: number | null;
  readonly total: number | null;
  readonly usedOfAll: number;
  readonly usedOfKey: number;
};

/**
 * Reads a lease that several may hold at once; undefined if it is no such lease, or the caller may not see it.
 * Locks nothing. Index: the primary key of `lease`: slots are beside the scope, or where all keys have a limit
 * together, the first names of the namespace.
 */
export async function readPool(
  sql: Sql<'reads'>,
  { namespace, name }: Named,
  namespaces: readonly string[] | null,
): Promise<PoolFound | undefined> {
  const rows = await sql.$queryRaw<PoolRow[]>`
    with own as materialized (
      select l.* from lease l
      where l.face = 'lease' and l.namespace = ${namespace} ${C} and l.name = ${name} ${C}
        and l.pool = l.name and ${withinLimits(namespaces)}
    ),
    live as materialized (
      select l.* from lease l
      where l.face = 'lease' and l.namespace = ${namespace} ${C}
        and l.name > chr(31) ${C} and l.name < ' ' ${C}
        and lease_unexpired(l.released_at, l.end_reason, l.expires_at)
      union all
      select l.* from lease l
      where l.face = 'lease' and l.namespace = ${namespace} ${C}
        and l.name > ${`${name}\u001F`} ${C} and l.name < ${`${name} `} ${C}
        and lease_unexpired(l.released_at, l.end_reason, l.expires_at)
    ),
    shown as (
      select o.* from own o
      union all
      (
        select v.* from live v join own o on o.pool = v.pool
        order by v.expires_at
        limit ${HOLDERS_SHOWN_MAX}
      )
    )
    select ${LEASE_COLUMNS}, l.pool, l.mode, l.metadata, true as "isOnPage",
      d.permits_per_key as "perKey", d.permits_total as total,
      (select count(*)::int from live v) as "usedOfAll",
      (select count(*)::int from live v where v.pool = l.pool) as "usedOfKey",
      (
        select count(*)::int from lease_waiter w
        where w.face = 'lease' and w.namespace = l.namespace and w.name = l.pool
          and w.valid_until > clock_timestamp()
      ) as waiters
    from shown l
    left join lease_declaration d on d.namespace = l.namespace
    order by l.expires_at`;
  const own = rows.find((row) => row.name === row.pool);
  if (own === undefined) return undefined;
  const holders = rows.filter((row) => row !== own);
  return { use: useOf(own, holders), row: holders[0] ?? { ...own, mode: null, stopsBy: null } };
}

function useOf(own: PoolRow, holders: readonly PoolRow[]): PoolUse {
  const { perKey, total, usedOfAll, usedOfKey } = own;
  const isShared = own.mode !== 'permit';
  return {
    kind: isShared ? 'shared' : 'permit',
    used: usedOfKey,
    permits: isShared ? null : perKey,
    total: isShared || total === null ? null : { used: usedOfAll, permits: total },
    holders: holders.map(({ leaseId, holder, mode, grantedAt, expiresAt }): PoolHolder => ({
      leaseId,
      holder,
      mode,
      grantedAt,
      expiresAt,
    })),
  };
}

/** Of how many namespaces the share is read. */
const SHARES_MAX = 50;

/**
 * Which share of the permits of all keys together is in use, by namespace: the largest ones. Locks nothing. Index: the
 * primary key of `lease`, for the slots of each namespace.
 */
export async function readPermitShares(sql: Sql<'general'>): Promise<Record<string, number>> {
  const rows = await sql.$queryRaw<{ namespace: string; share: number }[]>`
    select d.namespace, v.used::float8 / d.permits_total as share
    from lease_declaration d
    cross join lateral (
      select count(*) as used from lease l
      where l.face = 'lease' and l.namespace = d.namespace
        and l.name > chr(31) ${C} and l.name < ' ' ${C}
        and lease_unexpired(l.released_at, l.end_reason, l.expires_at)
    ) v
    where d.permits_total is not null
    order by share desc, d.namespace
    limit ${SHARES_MAX}`;
  return Object.fromEntries(rows.map(({ namespace, share }) => [namespace, share]));
}
