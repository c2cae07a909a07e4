import type { UseQueryResult } from '@tanstack/react-query';
import { type ReactNode, useMemo, useRef, useState } from 'react';
import type { Count } from '@leasehold/keys-core';
import type { ApiError } from '~/lib/api/api.ts';
import { countText, count as shown } from '~/lib/format.ts';
import type { UnreachableDatacenter } from '~/ui/states.tsx';
import type { Column } from './column.ts';

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
  /** How often it is read again, where that is seldom. */
  readonly everyMs?: number;
  readonly rowId: (item: Item) => string;
  readonly state: TableState;
  /** Changes with the filter and the page, not with the data. */
  readonly identity: string;
  /** Whether rows may be another datacenter's: those are read on a timer alone. */
  readonly isOfOthers?: boolean;
  /** What is shown if there are surely no rows. */
  readonly empty: ReactNode;
  readonly selection?: Selection<Item>;
  /** How many rows all pages have, if that is counted. */
  readonly total?: Count | undefined;
}

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

// Which rows of a list a page shows, in words: `1 to 100 of 100,013`.

interface PagePlace {
  /** How many rows the pages before this one have; null if that is not known. */
  readonly before: number | null;
  /** Undefined until they were read. */
  readonly rowCount: number | undefined;
  readonly hasNext: boolean;
  /** Undefined until it has been counted. */
  readonly total: Count | undefined;
}

/** Where a page is in its list. What cannot be known is not shown as known. */
export function placeText({ before, rowCount, hasNext, total }: PagePlace): string {
  if (rowCount === undefined) return '';
  if (before === null) {
    return total === undefined || !hasNext
      ? countText(rowCount, 'row')
      : `${countText(rowCount, 'row')} of ${totalText(total, rowCount)}`;
  }
  const end = before + rowCount;
  if (!hasNext && before === 0) return countText(rowCount, 'row');
  const range = rowCount === 0 ? 'None' : `${shown(before + 1)} to ${shown(end)}`;
  if (!hasNext) return `${range} of ${shown(end)}`;
  return `${range} of ${totalText(total ?? { count: end, isExact: false }, end)}`;
}

/** There is a next page, so a total that is no higher than what is shown was counted before it changed. */
function totalText({ count, isExact }: Count, atLeast: number): string {
  if (count <= atLeast) return `more than ${shown(atLeast)}`;
  return isExact ? shown(count) : `at least ${shown(count)}`;
}

/** The rows that a person has chosen, with their values at that time: a frozen selection. */
export type Selection<Item> = ReturnType<typeof useSelection<Item>>;

/** `nameOf`: what a person calls a row, for the name of its checkbox. */
export function useSelection<Item>(nameOf: (item: Item) => string) {
  /** The row that was chosen, or not, last: where a range begins. */
  const anchor = useRef<string | null>(null);
  const [chosen, setChosen] = useState<ReadonlyMap<string, Item>>(new Map());
  return useMemo(
    () => ({
      count: chosen.size,
      items: [...chosen.values()],
      nameOf,
      has: (id: string) => chosen.has(id),
      toggle: (id: string, item: Item): void => {
        anchor.current = id;
        setChosen((before) => {
          const next = new Map(before);
          if (!next.delete(id)) next.set(id, item);
          return next;
        });
      },
      /** Makes the rows from the last one that was toggled to this one as this one will be. */
      toggleRange(rows: readonly (readonly [id: string, item: Item])[], id: string): void {
        const range = rangeOf(rows, anchor.current, id);
        anchor.current = id;
        setChosen((before) => withAll(before, range, !before.has(id)));
      },
      setAll(entries: readonly (readonly [id: string, item: Item])[], isSelected: boolean): void {
        setChosen((before) => withAll(before, entries, isSelected));
      },
      clear: () => setChosen(new Map()),
    }),
    [chosen, nameOf],
  );
}

function withAll<Item>(
  before: ReadonlyMap<string, Item>,
  entries: readonly (readonly [id: string, item: Item])[],
  isSelected: boolean,
): ReadonlyMap<string, Item> {
  const next = new Map(before);
  for (const [id, item] of entries) {
    if (isSelected) next.set(id, item);
    else next.delete(id);
  }
  return next;
}

/** The rows between two, both included, in either direction; the second alone where the first is not there. */
export function rangeOf<Item>(
  rows: readonly (readonly [id: string, item: Item])[],
  fromId: string | null,
  toId: string,
): readonly (readonly [id: string, item: Item])[] {
  const to = rows.findIndex(([id]) => id === toId);
  const from = rows.findIndex(([id]) => id === fromId);
  if (to === -1) return [];
  if (from === -1) return rows.slice(to, to + 1);
  return rows.slice(Math.min(from, to), Math.max(from, to) + 1);
}
