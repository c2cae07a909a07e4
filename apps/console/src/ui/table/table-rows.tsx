import { Skeleton } from '@mantine/core';
import { useWindowVirtualizer } from '@tanstack/react-virtual';
import {
  memo,
  type ReactNode,
  useCallback,
  useEffect,
  useRef,
  useState,
  useSyncExternalStore,
} from 'react';
import type { Column } from './column.ts';
import { isSameRow } from './held-rows.ts';
import type { DataTableProps, Selection } from './table-state.ts';
import classes from './data-table.module.css';

/** From this many rows on, only the visible ones are in the document. */
const VIRTUAL_FROM = 60;
const ROW_PX = 34;
/** The window that is assumed until there is one: a page comes with as many rows as it shows. */
const FIRST_WINDOW = { width: 1_440, height: 900 };
/** Rows that are rendered beyond those in sight, in each direction. */
const OVERSCAN_ROWS = 10;
const FIRST_ROWS = Math.ceil(FIRST_WINDOW.height / ROW_PX) + OVERSCAN_ROWS;
const SKELETON_ROWS = 8;

/** The placeholder while rows are loading; nothing where none are asked for. */
export function LoadingRows({
  isAsked = true,
  columnCount,
}: {
  readonly isAsked?: boolean;
  readonly columnCount: number;
}) {
  if (!isAsked) return null;
  return Array.from({ length: SKELETON_ROWS }, (_row, index) => (
    <tr key={index} aria-hidden>
      <td colSpan={columnCount}>
        <Skeleton height={14} my={4} width={`${String(95 - index * 6)}%`} />
      </td>
    </tr>
  ));
}

/** Rows with their ids, as a selection has them. */
export function entriesOf<Item>(
  rows: readonly Item[],
  rowId: (row: Item) => string,
): (readonly [id: string, item: Item])[] {
  return rows.map((row) => [rowId(row), row] as const);
}

/** The checkbox in the head, which selects all rows of the page. */
export function SelectAll<Item>({
  rows,
  rowId,
  selection,
}: {
  readonly rows: readonly Item[];
  readonly rowId: (row: Item) => string;
  readonly selection: Selection<Item>;
}) {
  const selectedCount = rows.filter((row) => selection.has(rowId(row))).length;
  return (
    <th className={classes['select']}>
      <RowCheckbox
        label="Select all on this page"
        isChecked={rows.length > 0 && selectedCount === rows.length}
        isPartly={selectedCount > 0 && selectedCount < rows.length}
        onChange={(isChecked) => selection.setAll(entriesOf(rows, rowId), isChecked)}
      />
    </th>
  );
}

/** The rows themselves; of many, only the visible ones. */
export function TableRows<Item>({
  rows,
  columns,
  selection,
  rowId,
  read,
}: DataTableProps<Item> & { readonly rows: readonly Item[] }) {
  const [top, setTop] = useState(0);
  const virtualizer = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN_ROWS,
    initialRect: FIRST_WINDOW,
    scrollMargin: top,
    enabled: rows.length >= VIRTUAL_FROM,
    getItemKey: (index) => {
      const row = rows[index];
      return row === undefined ? index : rowId(row);
    },
  });
  const isVirtual = rows.length >= VIRTUAL_FROM;
  const pick = usePick(rows, rowId, selection);
  const isHydrating = useIsHydrating();
  const inSight = virtualizer.getVirtualItems();
  const first = inSight[0];
  const last = inSight.at(-1);
  const all = rows.map((row, index) => ({ row, id: rowId(row), index }));
  const isCut = isVirtual && first !== undefined && last !== undefined;
  let shown = isCut ? all.slice(first.index, last.index + 1) : all;
  let before = isCut ? first.start - top : 0;
  let after = isCut ? virtualizer.getTotalSize() - (last.end - top) : 0;
  if (isVirtual && isHydrating) {
    shown = all.slice(0, FIRST_ROWS);
    before = 0;
    after = Math.max(0, all.length - FIRST_ROWS) * ROW_PX;
  }
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
      {shown.map(({ row, id, index }) => (
        <tr
          key={id}
          data-index={index}
          data-row
          data-pale={read.isPlaceholderData || undefined}
          data-selected={selection?.has(id) === true || undefined}
          ref={virtualizer.measureElement}
        >
          {selection === undefined ? null : (
            <SelectCell
              row={row}
              id={id}
              isChecked={selection.has(id)}
              nameOf={selection.nameOf}
              pick={pick}
            />
          )}
          <Cells row={row} columns={columns} />
        </tr>
      ))}
      <tr aria-hidden className={classes['spacer']}>
        <td style={{ height: Math.max(0, after) }} />
      </tr>
    </>
  );
}

/** The cells of a row, which are rendered again only when the row changes: a list is read every second. */
const Cells = memo(function Cells<Item>({
  row,
  columns,
}: {
  readonly row: Item;
  readonly columns: readonly Column<Item>[];
}) {
  return columns.map(({ header, from, sort, align, isFilling, cell }) => (
    <td key={header} data-from={from} data-sort={sort} data-align={align} data-fill={isFilling}>
      {cell(row)}
    </td>
  ));
}, haveSameCells) as <Item>(props: {
  readonly row: Item;
  readonly columns: readonly Column<Item>[];
}) => ReactNode;

function haveSameCells(
  before: { readonly row: unknown; readonly columns: unknown },
  after: { readonly row: unknown; readonly columns: unknown },
): boolean {
  return before.columns === after.columns && isSameRow(before.row, after.row);
}

/** Chooses a row, with Shift also those up to the last one that was chosen. It stays the same while rows change. */
function usePick<Item>(
  rows: readonly Item[],
  rowId: (row: Item) => string,
  selection: Selection<Item> | undefined,
) {
  const latest = useRef({ rows, rowId, selection });
  useEffect(() => {
    latest.current = { rows, rowId, selection };
  });
  return useCallback((id: string, row: Item, isRange: boolean): void => {
    const now = latest.current;
    if (!isRange) now.selection?.toggle(id, row);
    else now.selection?.toggleRange(entriesOf(now.rows, now.rowId), id);
  }, []);
}

/** The checkbox of a row. */
const SelectCell = memo(
  function SelectCell<Item>({ row, id, isChecked, nameOf, pick }: SelectCellProps<Item>) {
    return (
      <td className={classes['select']}>
        <RowCheckbox
          label={`Select ${nameOf(row)}`}
          isChecked={isChecked}
          onChange={(_isChecked, isRange) => pick(id, row, isRange)}
        />
      </td>
    );
  },
  (before, after) =>
    before.id === after.id &&
    before.isChecked === after.isChecked &&
    before.pick === after.pick &&
    isSameRow(before.row, after.row),
) as <Item>(props: SelectCellProps<Item>) => ReactNode;

interface SelectCellProps<Item> {
  readonly row: Item;
  readonly id: string;
  readonly isChecked: boolean;
  readonly nameOf: Selection<Item>['nameOf'];
  readonly pick: (id: string, row: Item, isRange: boolean) => void;
}

/** The browser's own checkbox in the console's colour; `isPartly`: neither on nor off. */
function RowCheckbox({
  label,
  isChecked,
  isPartly = false,
  onChange,
}: {
  /** What a screen reader calls it. */
  readonly label: string;
  readonly isChecked: boolean;
  readonly isPartly?: boolean;
  /** `isRange`: with Shift. */
  readonly onChange: (isChecked: boolean, isRange: boolean) => void;
}) {
  return (
    <input
      type="checkbox"
      className={classes['checkbox']}
      aria-label={label}
      checked={isChecked}
      // HTML has no attribute for it.
      ref={(input) => {
        if (input !== null) input.indeterminate = isPartly;
      }}
      onChange={(event) =>
        onChange(event.currentTarget.checked, (event.nativeEvent as MouseEvent).shiftKey)
      }
    />
  );
}

const subscribeToNothing = () => () => undefined;

/**
 * Whether the browser takes over what the server has rendered. After a reload in the middle of a page
 * the browser has scrolled already, which the server cannot know: both must begin with the same rows.
 */
function useIsHydrating(): boolean {
  return useSyncExternalStore(
    subscribeToNothing,
    () => false,
    () => true,
  );
}
