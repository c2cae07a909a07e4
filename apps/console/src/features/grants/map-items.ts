import type { UseQueryResult } from '@tanstack/react-query';
import type { ListPage } from '~/components/table/table-types.ts';
import type { ApiError } from '~/lib/api-error.ts';

/** The same read with other rows: what a table shows that was made of what was read. */
export function mapItems<Item>(
  read: UseQueryResult<{ readonly nextCursor: string | null }, ApiError>,
  items: readonly Item[],
  asOf: string,
): UseQueryResult<ListPage<Item>, ApiError> {
  const data =
    read.data === undefined ? undefined : { items, nextCursor: read.data.nextCursor, asOf };
  return { ...read, data } as UseQueryResult<ListPage<Item>, ApiError>;
}
