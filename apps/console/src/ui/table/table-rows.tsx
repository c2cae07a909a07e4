'use client';

import { Skeleton } from '@mantine/core';
import { flexRender, type Row } from '@tanstack/react-table';
import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { useState } from 'react';
import { RowCheckbox } from './row-checkbox.tsx';
import type { Selection } from './use-selection.ts';
import classes from './data-table.module.css';

/** From this many rows on, only the visible ones are in the document. */
const VIRTUAL_FROM = 60;
const ROW_PX = 34;
/** The window that is assumed until there is one: a page comes with as many rows as it shows. */
const FIRST_WINDOW = { width: 1_440, height: 900 };
const SKELETON_ROWS = 8;

/** The placeholder while rows are loading. */
export function LoadingRows({ columnCount }: { readonly columnCount: number }) {
  return Array.from({ length: SKELETON_ROWS }, (_row, index) => (
    <tr key={index} aria-hidden>
      <td colSpan={columnCount}>
        <Skeleton height={14} my={4} width={`${String(95 - index * 6)}%`} />
      </td>
    </tr>
  ));
}

/** The checkbox in the head, which selects all rows of the page. */
export function SelectAll<Item>({
  rows,
  selection,
}: {
  readonly rows: Row<Item>[];
  readonly selection: Selection<Item>;
}) {
  const selectedCount = rows.filter((row) => selection.has(row.id)).length;
  return (
    <th className={classes['select']}>
      <RowCheckbox
        label="Select all on this page"
        isChecked={rows.length > 0 && selectedCount === rows.length}
        isPartly={selectedCount > 0 && selectedCount < rows.length}
        onChange={(isChecked) =>
          selection.setAll(
            rows.map((row) => [row.id, row.original]),
            isChecked,
          )
        }
      />
    </th>
  );
}

/** The rows themselves; of many, only the visible ones. */
export function TableRows<Item>({
  rows,
  selection,
  rowName,
  isPale,
}: {
  readonly rows: Row<Item>[];
  readonly selection: Selection<Item> | undefined;
  readonly rowName: (item: Item) => string;
  readonly isPale: boolean;
}) {
  const [top, setTop] = useState(0);
  const virtualizer = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => ROW_PX,
    overscan: 20,
    initialRect: FIRST_WINDOW,
    scrollMargin: top,
    enabled: rows.length >= VIRTUAL_FROM,
    getItemKey: (index) => rows[index]?.id ?? index,
  });
  const isVirtual = rows.length >= VIRTUAL_FROM;
  const inSight = virtualizer.getVirtualItems();
  const first = inSight[0];
  const last = inSight.at(-1);
  const shown =
    !isVirtual || first === undefined || last === undefined
      ? rows.map((row, index) => ({ row, index }))
      : rows
          .slice(first.index, last.index + 1)
          .map((row, at) => ({ row, index: first.index + at }));
  const before = isVirtual && first !== undefined ? first.start - top : 0;
  const after = isVirtual && last !== undefined ? virtualizer.getTotalSize() - (last.end - top) : 0;
  return (
    <>
      <tr
        ref={(element) => {
          if (element === null) return;
          const next = element.getBoundingClientRect().top + window.scrollY;
          if (Math.abs(next - top) > 1) setTop(next);
        }}
        aria-hidden
        className={classes['spacer']}
      >
        <td style={{ height: Math.max(0, before) }} />
      </tr>
      {shown.map(({ row, index }) => (
        <tr
          key={row.id}
          data-index={index}
          data-row
          data-pale={isPale || undefined}
          data-selected={selection?.has(row.id) === true || undefined}
          ref={virtualizer.measureElement}
        >
          {selection === undefined ? null : (
            <td className={classes['select']}>
              <RowCheckbox
                label={`Select ${rowName(row.original)}`}
                isChecked={selection.has(row.id)}
                onChange={() => selection.toggle(row.id, row.original)}
              />
            </td>
          )}
          {row.getVisibleCells().map((cell) => (
            <td
              key={cell.id}
              data-from={cell.column.columnDef.meta?.from}
              data-align={cell.column.columnDef.meta?.align}
              data-fill={cell.column.columnDef.meta?.isFilling}
            >
              {flexRender(cell.column.columnDef.cell, cell.getContext())}
            </td>
          ))}
        </tr>
      ))}
      <tr aria-hidden className={classes['spacer']}>
        <td style={{ height: Math.max(0, after) }} />
      </tr>
    </>
  );
}
