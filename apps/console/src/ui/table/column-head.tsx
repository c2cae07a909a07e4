import { UnstyledButton } from '@mantine/core';
import { IconArrowDown, IconArrowsSort, IconArrowUp } from '@tabler/icons-react';
import type { Column } from './column.ts';
import type { TableState } from './table-types.ts';
import classes from './data-table.module.css';

const ICONS = { asc: IconArrowUp, desc: IconArrowDown };

/** The head of a column, a button where the list can be sorted by it. */
export function ColumnHead<Item>({
  column: { header, sort, from, align, isFilling, isHeadHidden },
  state,
}: {
  readonly column: Column<Item>;
  readonly state: TableState;
}) {
  const content =
    isHeadHidden === true ? <span className="visually-hidden">{header}</span> : header;
  const isSorted = sort !== undefined && state.sort === sort;
  const direction = state.direction ?? 'asc';
  const SortIcon = isSorted ? ICONS[direction] : IconArrowsSort;
  return (
    <th
      scope="col"
      data-from={from}
      data-align={align}
      data-fill={isFilling}
      aria-sort={isSorted ? (direction === 'asc' ? 'ascending' : 'descending') : undefined}
    >
      {sort === undefined ? (
        content
      ) : (
        <UnstyledButton
          className={classes['sort'] ?? ''}
          onClick={() => {
            state.setSort?.(sort as never, isSorted && direction === 'asc' ? 'desc' : 'asc');
          }}
        >
          {content}
          <SortIcon size={12} aria-hidden data-idle={!isSorted || undefined} />
        </UnstyledButton>
      )}
    </th>
  );
}
