import type { LeaseRow } from '../../kernel/lease/lease.ts';
import { LIMITS } from '../../kernel/limits.ts';
import type { Face } from '../../kernel/resource/resource.ts';
import { orderOf, type LeaseOrder } from './lease-order.ts';
import { listResources, type ResourceColumns, type ResourceFilter } from './resource-list.ts';
import { type Fragment, fragment, NO_FRAGMENT, type Sql } from '../../postgres/sql.ts';

/** A lease or an environment as a list shows it. */
export interface ListedLease extends LeaseRow {
  readonly metadata: unknown;
  readonly waiters: number;
  /** False for the row after a page that its bytes ended: it lacks metadata, and begins the next page. */
  readonly isOnPage: boolean;
}

/** A page ends with the row whose metadata makes it reach this many bytes. */
const METADATA_BYTES_MAX = 512 * 1_024;

/**
 * Ends a page where its metadata reaches {@link METADATA_BYTES_MAX}: one row after it is read, so that
 * the page is known not to be the last. Sizes are estimated without reading the values: a compressed
 * value counts as the largest that is allowed. Decompressing 500 values of 16 KB costs more than the
 * rest of the page.
 */
function shownIn(order: LeaseOrder): ResourceColumns {
  const bytes = fragment`
    case when pg_column_compression(l.metadata) is null then coalesce(pg_column_size(l.metadata), 0)
    else ${LIMITS.metadataBytesMax}::int end`;
  const bytesUpTo = (end: Fragment): Fragment => fragment`
    coalesce(sum(${bytes}) over (order by ${orderOf(order)} rows between unbounded preceding and ${end}), 0)`;
  const isOnPage = fragment`l.bytes_before < ${METADATA_BYTES_MAX}::int`;
  return {
    columns: fragment`case when ${isOnPage} then l.metadata end as metadata, ${isOnPage} as "isOnPage"`,
    joins: NO_FRAGMENT,
    narrow: (cut) => fragment`
      select l.*
      from (
        select l.*, ${bytesUpTo(fragment`1 preceding`)} as bytes_before,
          ${bytesUpTo(fragment`2 preceding`)} as bytes_before_previous
        from (${cut}) l
      ) l
      where l.bytes_before_previous < ${METADATA_BYTES_MAX}::int`,
  };
}

/** Reads a page of leases or environments, as {@link listResources} does. */
export async function listLeases(
  sql: Sql<'reads'>,
  face: Face,
  filter: ResourceFilter,
  order: LeaseOrder,
): Promise<ListedLease[]> {
  return listResources<ListedLease>(sql, face, { filter, order }, shownIn(order));
}
