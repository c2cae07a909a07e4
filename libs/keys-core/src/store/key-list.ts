import type { LeaseRow, Phase } from '../kernel/lease.ts';
import { Prisma } from './generated/client.ts';
import {
  PHASE_CONDITIONS,
  orderOf,
  placeOf,
  withinLimits,
  type LeaseOrder,
} from './lease-order.ts';
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

/**
 * Reads a page of keys. Pages by the values of the last row, not by a count, so that it stays
 * stable while keys come and go. Index: the primary key for the order by name.
 */
export async function listKeys(sql: Sql, filter: KeyFilter, order: LeaseOrder): Promise<KeyRow[]> {
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
  const conditions = [withinLimits(filter.namespaces)];
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
