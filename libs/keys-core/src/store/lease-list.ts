import type { LeaseRow, Phase } from '../kernel/lease.ts';
import type { Face } from '../kernel/resource.ts';
import { Prisma } from './generated/client.ts';
import {
  PHASE_CONDITIONS,
  orderOf,
  placeOf,
  withinLimits,
  withinNamespace,
  type LeaseOrder,
} from './lease-order.ts';
import { C, LEASE_COLUMNS, type Sql } from './rows.ts';

/** A lease or an environment as a list shows it. */
export interface ListedLease extends LeaseRow {
  readonly metadata: unknown;
  readonly waiters: number;
}

export interface LeaseFilter {
  readonly namespace?: string | undefined;
  readonly includeChildren: boolean;
  readonly name?: string | undefined;
  readonly prefix?: string | undefined;
  readonly phase?: Phase | undefined;
  readonly holder?: string | undefined;
  /** Namespaces, children included, that the caller is limited to; null for no limit. */
  readonly namespaces: readonly string[] | null;
}

/**
 * Reads a page of leases or environments. Pages by the values of the last row, not by a count, so
 * that it stays stable while leases come and go. Index: the primary key, for the order by name and
 * for the namespace; another order reads all that the filter leaves. The page is cut before anything
 * is added to its rows: with a million leases that is the difference between half a second and a
 * statement that is cancelled.
 */
export async function listLeases(
  sql: Sql,
  face: Face,
  filter: LeaseFilter,
  order: LeaseOrder,
): Promise<ListedLease[]> {
  return sql.$queryRaw<ListedLease[]>`
    select ${LEASE_COLUMNS}, l.metadata,
      (
        select count(*)::int from lease_waiter w
        where w.face = l.face and w.namespace = l.namespace and w.name = l.name
          and w.valid_until > clock_timestamp()
      ) as waiters
    from (
      select l.* from lease l
      where l.face = ${face} ${C} and ${conditionOf(filter)} and ${placeOf(order)}
      order by ${orderOf(order)}
      limit ${order.limit}
    ) l
    order by ${orderOf(order)}`;
}

function conditionOf(filter: LeaseFilter): Prisma.Sql {
  const { namespace, includeChildren, name, prefix, phase, holder } = filter;
  const conditions = [withinLimits(filter.namespaces)];
  if (namespace !== undefined) {
    conditions.push(
      includeChildren ? withinNamespace(namespace) : Prisma.sql`l.namespace = ${namespace} ${C}`,
    );
  }
  if (name !== undefined) conditions.push(Prisma.sql`l.name = ${name} ${C}`);
  if (prefix !== undefined) conditions.push(Prisma.sql`starts_with(l.name, ${prefix})`);
  if (holder !== undefined) conditions.push(Prisma.sql`l.holder = ${holder}`);
  if (phase !== undefined) conditions.push(PHASE_CONDITIONS[phase]);
  return Prisma.join(conditions, ' and ');
}
