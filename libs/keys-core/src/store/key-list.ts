import type { LeaseRow, Phase } from '../kernel/lease.ts';
import { Prisma } from './generated/client.ts';
import { C, LEASE_COLUMNS, type Sql } from './rows.ts';

/** A key as a list shows it. */
export interface KeyRow extends LeaseRow {
  readonly backendId: string | null;
  readonly backendStatus: string | null;
  readonly droneId: string | null;
  readonly waiters: number;
}

export interface KeyFilter {
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  readonly prefix?: string | undefined;
  readonly phase?: Phase | undefined;
  readonly holder?: string | undefined;
  readonly droneId?: string | undefined;
  readonly tag?: string | undefined;
  /** Namespaces, children included, that the caller is limited to; null for no limit. */
  readonly namespaces: readonly string[] | null;
}

export interface KeyOrder {
  readonly by: 'name' | 'grantedAt' | 'expiresAt';
  readonly direction: 'asc' | 'desc';
  /** The place of the last row of the page before: its sort instant (or null), namespace and name. */
  readonly after: {
    readonly at: number | null;
    readonly namespace: string;
    readonly name: string;
  } | null;
  readonly limit: number;
}

/**
 * Reads a page of keys. Pages by the values of the last row, not by a count, so that it stays
 * stable while keys come and go. Index: the primary key for the order by name.
 */
export async function listKeys(sql: Sql, filter: KeyFilter, order: KeyOrder): Promise<KeyRow[]> {
  return sql.$queryRaw<KeyRow[]>`
    select ${LEASE_COLUMNS},
      b.id as "backendId", b.status as "backendStatus", b.drone_id as "droneId",
      (
        select count(*)::int from lease_waiter w
        where w.face = l.face and w.namespace = l.namespace and w.name = l.name
          and w.valid_until > clock_timestamp()
      ) as waiters
    from lease l
    left join backend b on b.lease_id = l.lease_id
    where l.face = 'key' and ${conditionOf(filter)} and ${placeOf(order)}
    order by ${orderOf(order)}
    limit ${order.limit}`;
}

function conditionOf(filter: KeyFilter): Prisma.Sql {
  const conditions = [
    Prisma.sql`lease_is_within(l.namespace, ${
      filter.namespaces === null ? null : JSON.stringify(filter.namespaces)
    }::jsonb)`,
  ];
  if (filter.namespace !== undefined) {
    conditions.push(Prisma.sql`l.namespace = ${filter.namespace} ${C}`);
  }
  if (filter.name !== undefined) conditions.push(Prisma.sql`l.name = ${filter.name} ${C}`);
  if (filter.prefix !== undefined) {
    conditions.push(Prisma.sql`starts_with(l.name, ${filter.prefix})`);
  }
  if (filter.holder !== undefined) conditions.push(Prisma.sql`l.holder = ${filter.holder}`);
  if (filter.droneId !== undefined) {
    conditions.push(Prisma.sql`b.drone_id = ${filter.droneId} ${C}`);
  }
  if (filter.tag !== undefined) conditions.push(Prisma.sql`l.tag = ${filter.tag}`);
  if (filter.phase !== undefined) conditions.push(PHASE_CONDITIONS[filter.phase]);
  return Prisma.join(conditions, ' and ');
}

const HELD_BACK = Prisma.sql`(l.stops_by is not null and l.stops_by > clock_timestamp())`;
const UNEXPIRED = Prisma.sql`lease_unexpired(l.released_at, l.end_reason, l.expires_at)`;

/** `phaseOf`, said in SQL; a test holds the two together. */
const PHASE_CONDITIONS: Record<Phase, Prisma.Sql> = {
  held: Prisma.sql`(${UNEXPIRED} and l.renewable and not ${HELD_BACK})`,
  expiring: Prisma.sql`((${UNEXPIRED} and not l.renewable) or ${HELD_BACK})`,
  expired: Prisma.sql`(not ${UNEXPIRED} and coalesce(l.end_reason, 'expired') = 'expired' and not ${HELD_BACK})`,
  free: Prisma.sql`(l.end_reason in ('released', 'revoked', 'removed') and not ${HELD_BACK})`,
};

const SORT_COLUMNS = {
  grantedAt: Prisma.sql`l.granted_at`,
  expiresAt: Prisma.sql`l.expires_at`,
} as const;

function placeOf({ by, direction, after }: KeyOrder): Prisma.Sql {
  if (after === null) return Prisma.sql`true`;
  const comparison = direction === 'asc' ? Prisma.sql`>` : Prisma.sql`<`;
  const names = Prisma.sql`${after.namespace} ${C}, ${after.name} ${C}`;
  if (by === 'name') return Prisma.sql`(l.namespace, l.name) ${comparison} (${names})`;
  return Prisma.sql`(${SORT_COLUMNS[by]}, l.namespace, l.name)
    ${comparison} (to_timestamp(${(after.at ?? 0) / 1000}::float8)::timestamptz(3), ${names})`;
}

function orderOf({ by, direction }: KeyOrder): Prisma.Sql {
  const way = direction === 'asc' ? Prisma.sql`asc` : Prisma.sql`desc`;
  const names = Prisma.sql`l.namespace ${way}, l.name ${way}`;
  return by === 'name' ? names : Prisma.sql`${SORT_COLUMNS[by]} ${way}, ${names}`;
}
