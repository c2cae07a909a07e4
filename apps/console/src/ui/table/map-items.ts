import type { UseQueryResult } from '@tanstack/react-query';
import type { UnreachableDatacenter } from '../states/notice.tsx';
import type { ListPage } from './table-types.ts';
import type { ApiError } from '~/lib/api/api-error.ts';

/** The same read with other rows, for a table whose rows are made from what was read. */
export function mapItems<Item>(
  read: UseQueryResult<
    {
      readonly nextCursor: string | null;
      readonly unreachable?: readonly UnreachableDatacenter[];
    },
    ApiError
  >,
  items: readonly Item[],
  asOf: string,
): UseQueryResult<ListPage<Item>, ApiError> {
  const data = read.data === undefined ? undefined : { ...read.data, items, asOf };
  return { ...read, data } as UseQueryResult<ListPage<Item>, ApiError>;
}
