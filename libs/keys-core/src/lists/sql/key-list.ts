import type { TerminationReason } from '../../kernel/fleet/backend-state.ts';
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
  /** Backends that have failed one after another. Instants are milliseconds of the database's clock. */
  readonly failing: {
    readonly failures: number;
    readonly since: number;
    readonly failedAt: number;
    readonly startAt: number;
    readonly backendId: string;
    readonly reason: TerminationReason | null;
    readonly exitCode: number | null;
  } | null;
}

/**
 * Its backend, found by `backend_lease_id_key`, and the failures of its last ones by `key_failure_pkey`: none are shown of
 * a key whose backend has been ready for a minute.
 */
const SHOWN = {
  columns: fragment`b.id as "backendId", b.status as "backendStatus", b.drone_id as "droneId",
    b.reason as "backendReason", b.exit_code as "exitCode", b.address is not null as "wasReady",
    l.home_reservation as "reservationId",
    case when f.name is not null then jsonb_build_object(
      'failures', f.failures, 'since', extract(epoch from f.since)::float8 * 1000,
      'failedAt', extract(epoch from f.failed_at)::float8 * 1000, 'startAt', extract(epoch from f.start_at)::float8 * 1000,
      'backendId', f.backend_id, 'reason', e.reason, 'exitCode', e.exit_code
    ) end as failing`,
  joins: fragment`left join backend b on b.lease_id = l.lease_id
    left join key_failure f on f.namespace = l.namespace and f.name = l.name
      and (b.status = 'ready' and b.status_at < clock_timestamp() - interval '1 minute') is not true
    left join backend e on e.id = f.backend_id`,
};

/** Reads a page of keys, as {@link listResources} does. */
export async function listKeys(
  sql: Sql<'reads'>,
  filter: ResourceFilter,
  order: LeaseOrder,
): Promise<KeyRow[]> {
  return listResources<KeyRow>(sql, 'key', { filter, order }, SHOWN);
}
