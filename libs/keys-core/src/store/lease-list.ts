import type { LeaseRow } from '../kernel/lease.ts';
import type { Face } from '../kernel/resource.ts';
import type { LeaseOrder } from './lease-order.ts';
import { listResources, type ResourceFilter } from './resource-list.ts';
import type { Sql } from './rows.ts';
import { fragment, NO_FRAGMENT } from './sql.ts';

/** A lease or an environment as a list shows it. */
export interface ListedLease extends LeaseRow {
  readonly metadata: unknown;
  readonly waiters: number;
}

const SHOWN = { columns: fragment`l.metadata`, joins: NO_FRAGMENT };

/** Reads a page of leases or environments, as {@link listResources} does. */
export async function listLeases(
  sql: Sql,
  face: Face,
  filter: ResourceFilter,
  order: LeaseOrder,
): Promise<ListedLease[]> {
  return listResources<ListedLease>(sql, face, { filter, order }, SHOWN);
}
