import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { ApiError } from '~/lib/api/api-error.ts';
import type { UnreachableDatacenter } from '../states/notice.tsx';
import type { Column } from './column.ts';
import type { Count } from '@leasehold/keys-core';
import type { Selection } from './use-selection.ts';

/** A page of any list of the API. */
export interface ListPage<Item> {
  readonly items: readonly Item[];
  readonly nextCursor: string | null;
  readonly asOf?: string;
  readonly unreachable?: readonly UnreachableDatacenter[];
}

/** What a table needs of {@link ListState}: where it is in the list, and how it is sorted. */
export interface TableState {
  readonly sort?: string;
  readonly direction?: 'asc' | 'desc';
  readonly setSort?: (sort: never, direction: 'asc' | 'desc') => void;
  readonly after: string | null;
  readonly setAfter: (after: string | null) => void;
}

export interface DataTableProps<Item> {
  /** What the rows are, for people: `keys`. */
  readonly label: string;
  readonly columns: readonly Column<Item>[];
  readonly read: UseQueryResult<ListPage<Item>, ApiError>;
  readonly rowId: (item: Item) => string;
  readonly state: TableState;
  /** Changes with the filter and the page, not with the data. */
  readonly identity: string;
  /** Whether rows may be another datacenter's: those are read on a timer alone. */
  readonly isOfOthers?: boolean;
  /** What is shown if there are no rows. */
  readonly empty: ReactNode;
  readonly selection?: Selection<Item>;
  /** How many rows all pages have, if that is counted. */
  readonly total?: Count | undefined;
}
