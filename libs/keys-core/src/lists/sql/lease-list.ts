import type { LeaseRow } from '../../kernel/lease.ts';
import { LIMITS } from '../../kernel/limits.ts';
import type { Face } from '../../kernel/resource.ts';
import { orderOf, type LeaseOrder } from './lease-order.ts';
import { listResources, type ResourceColumns, type ResourceFilter } from './resource-list.ts';
import type { Sql } from '../../postgres/rows.ts';
import { fragment, NO_FRAGMENT } from '../../postgres/sql.ts';

/** A lease or an environment as a list shows it. */
export interface ListedLease extends LeaseRow {
  readonly metadata: unknown;
  readonly waiters: number;
  /** False for rows behind the bytes of a page: they come without metadata, and belong on the next one. */
  readonly isOnPage: boolean;
}

/** A page ends with the row whose metadata reaches this. Bytes. */
const METADATA_BYTES_MAX = 512 * 1_024;

/**
 * Sums up metadata in the database: what is not shown is not sent. Sizes are
 * estimated without reading the values: a compressed value counts as the largest that is allowed. To
 * decompress 500 values of 16 KB costs more than the rest of the page.
 */
function shownIn(order: LeaseOrder): ResourceColumns {
  const isOnPage = fragment`(
    coalesce(
      sum(
        case when pg_column_compression(l.metadata) is null then pg_column_size(l.metadata)
        else ${LIMITS.metadataBytesMax}::int end
      ) over (order by ${orderOf(order)} rows between unbounded preceding and 1 preceding),
      0
    ) < ${METADATA_BYTES_MAX}::int
  )`;
  return {
    columns: fragment`case when ${isOnPage} then l.metadata end as metadata, ${isOnPage} as "isOnPage"`,
    joins: NO_FRAGMENT,
  };
}

/** Reads a page of leases or environments, as {@link listResources} does. */
export async function listLeases(
  sql: Sql,
  face: Face,
  filter: ResourceFilter,
  order: LeaseOrder,
): Promise<ListedLease[]> {
  return listResources<ListedLease>(sql, face, { filter, order }, shownIn(order));
}
