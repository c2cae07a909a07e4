import type { LeaseRow } from '../../kernel/lease/lease.ts';
import type { LeaseOrder } from './lease-order.ts';
import { listResources, type ResourceFilter } from './resource-list.ts';
import { fragment, type Sql } from '../../postgres/sql.ts';

/** A key as a list shows it. */
export interface KeyRow extends LeaseRow {
  readonly backendId: string | null;
  readonly backendStatus: string | null;
  readonly backendReason: string | null;
  readonly exitCode: number | null;
  readonly wasReady: boolean | null;
  readonly droneId: string | null;
  readonly reservationId: string | null;
  readonly waiters: number;
}

/** Its backend, found by `backend_lease_id_key`. */
const SHOWN = {
  columns: fragment`b.id as "backendId", b.status as "backendStatus", b.drone_id as "droneId",
    b.reason as "backendReason", b.exit_code as "exitCode", b.address is not null as "wasReady",
    l.home_reservation as "reservationId"`,
  joins: fragment`left join backend b on b.lease_id = l.lease_id`,
};

/** Reads a page of keys, as {@link listResources} does. */
export async function listKeys(
  sql: Sql<'reads'>,
  filter: ResourceFilter,
  order: LeaseOrder,
): Promise<KeyRow[]> {
  return listResources<KeyRow>(sql, 'key', { filter, order }, SHOWN);
}
