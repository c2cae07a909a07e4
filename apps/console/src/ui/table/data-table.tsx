import { Button } from '@mantine/core';
import { useRef, useState } from 'react';
import { counted } from '~/lib/format.ts';
import { ErrorState } from '../states/states.tsx';
import { StaleScope } from '../states/stale-scope.tsx';
import { UnreachableNotice } from '../states/notice.tsx';
import { ColumnHead } from './column-head.tsx';
import { TableFooter } from './table-footer.tsx';
import { LoadingRows, SelectAll, TableRows } from './table-rows.tsx';
import type { DataTableProps } from './table-types.ts';
import { useHeldRows } from './held-rows.ts';
import { useRowKeys } from './use-row-keys.ts';
import classes from './data-table.module.css';

/**
 * A list as every page shows it: sortable heads, pages by cursor, rows that stay put while somebody
 * works with them, `j` `k` between rows, `x` to select, `r` to refresh; and its own empty,
 * loading and error states. The first link of a row is what Enter opens.
 */
export function DataTable<Item>(props: DataTableProps<Item>) {
  const { read, columns, rowId, selection } = props;
  const [isTouched, setTouched] = useState(false);
  const [isFocused, setFocused] = useState(false);
  const region = useRef<HTMLDivElement>(null);
  const body = useRef<HTMLTableSectionElement>(null);
  const held = useHeldRows(itemsOf(read), {
    identity: props.identity,
    isStandIn: read.isPlaceholderData,
    isHeld: isTouched || isFocused || isAnySelected(selection),
    rowId,
  });
  const { rows } = held;
  useRowKeys(body, (index) => {
    const row = rows[index];
    if (row !== undefined) selection?.toggle(rowId(row), row);
  });

  if (read.data === undefined && read.isError) {
    return (
      <ErrorState
        error={read.error}
        what={`the ${props.label}`}
        onRetry={() => void read.refetch()}
      />
    );
  }
  return (
    <div className={classes['table-box']}>
      <StaleScope read={read}>
        <UnreachableNotice unreachable={read.data?.unreachable} />
        <div
          ref={region}
          className={classes['scroll']}
          tabIndex={0}
          role="region"
          aria-label={props.label}
          onPointerEnter={() => setTouched(true)}
          onPointerLeave={() => setTouched(false)}
          // Only focus inside the table counts, not focus on its region, as after a change of the page.
          onFocus={(event) => setFocused(event.target !== event.currentTarget)}
          onBlur={() => setFocused(false)}
        >
          <Changes held={held} />
          <table
            className={classes['table']}
            aria-busy={read.data === undefined || read.isPlaceholderData}
          >
            <thead>
              <tr>
                {selection === undefined ? null : (
                  <SelectAll rows={rows} rowId={rowId} selection={selection} />
                )}
                {columns.map((column) => (
                  <ColumnHead key={column.header} column={column} state={props.state} />
                ))}
              </tr>
            </thead>
            <tbody ref={body}>
              {read.data === undefined ? (
                <LoadingRows columnCount={columns.length + (selection === undefined ? 0 : 1)} />
              ) : (
                <TableRows {...props} rows={rows} />
              )}
            </tbody>
          </table>
          {read.data?.items.length === 0 ? props.empty : null}
        </div>
        <TableFooter
          {...props}
          rowCount={rows.length}
          onPaged={() => toBeginning(region.current)}
        />
      </StaleScope>
    </div>
  );
}

/** A new page is read from its first row: its head comes into sight, and its region gets the focus. */
function toBeginning(region: HTMLElement | null): void {
  region?.querySelector('thead')?.scrollIntoView({ block: 'nearest' });
  region?.focus({ preventScroll: true });
}

const NONE: readonly never[] = [];

function itemsOf<Item>(read: DataTableProps<Item>['read']): readonly Item[] {
  return read.data?.items ?? NONE;
}

function isAnySelected<Item>(selection: DataTableProps<Item>['selection']): boolean {
  return selection !== undefined && selection.count > 0;
}

/** The number of changes that are not shown yet, over the table's head, so that nothing moves. */
function Changes({ held }: { readonly held: { changeCount: number; showAll: () => void } }) {
  if (held.changeCount === 0) return null;
  return (
    <div className={classes['changes']} role="status">
      <Button size="compact-xs" onClick={held.showAll}>
        {counted(held.changeCount, 'change')}: show
      </Button>
    </div>
  );
}
