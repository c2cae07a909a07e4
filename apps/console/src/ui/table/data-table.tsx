import { Button, Group, UnstyledButton } from '@mantine/core';
import {
  IconArrowDown,
  IconArrowsSort,
  IconArrowUp,
  IconChevronLeft,
  IconChevronRight,
  IconChevronsLeft,
} from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { type RefObject, useEffect, useRef, useState } from 'react';
import { integerParam, useQueryState } from '~/lib/address.ts';
import { countText } from '~/lib/format.ts';
import { DataAge, StaleScope } from '~/ui/stale.tsx';
import { ErrorState, isSurelyEmpty, UnreachableNotice } from '~/ui/states.tsx';
import { useShortcut } from '~/ui/use-shortcut.ts';
import type { Column } from './column.ts';
import { cursorOf, useHeldRows } from './held-rows.ts';
import { entriesOf, LoadingRows, SelectAll, TableRows } from './table-rows.tsx';
import { type DataTableProps, placeText, type TableState } from './table-state.ts';
import classes from './data-table.module.css';

/**
 * A list as every page shows it: sortable heads, pages by cursor, rows that stay put while somebody
 * works with them, `j` `k` and arrow keys between rows, `x` to select, `X` to select a range, `r` to refresh; and its own empty,
 * loading and error states. The first link of a row is what Enter opens.
 */
export function DataTable<Item>(props: DataTableProps<Item>) {
  const { read, columns, rowId, selection } = props;
  const [isTouched, setTouched] = useState(false);
  const [isFocused, setFocused] = useState(false);
  const region = useRef<HTMLDivElement>(null);
  const body = useRef<HTMLTableSectionElement>(null);
  const held = useHeldRows(itemsOf(read), {
    nextCursor: cursorOf(read),
    identity: props.identity,
    isStandIn: read.isPlaceholderData,
    isHeld: isTouched || isFocused || isAnySelected(selection),
    rowId,
  });
  const { rows } = held;
  useFits(region);
  useRowStops(body);
  useRowKeys(body, (index, isRange) => {
    const row = rows[index];
    if (row === undefined || selection === undefined) return;
    if (isRange) selection.toggleRange(entriesOf(rows, rowId), rowId(row));
    else selection.toggle(rowId(row), row);
  });

  if (read.data === undefined && read.isError) {
    return <ErrorState read={read} what={`the ${props.label}`} />;
  }
  return (
    <div className={classes['table-box']}>
      <StaleScope read={read} everyMs={props.everyMs}>
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
          <table className={classes['table']} aria-busy={isBusy(read)}>
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
                <LoadingRows
                  isAsked={read.isEnabled}
                  columnCount={columns.length + (selection === undefined ? 0 : 1)}
                />
              ) : (
                <TableRows {...props} rows={rows} />
              )}
            </tbody>
          </table>
          {isSurelyEmpty(read.data) ? props.empty : null}
        </div>
        <TableFooter
          {...props}
          rowCount={rows.length}
          nextCursor={held.nextCursor}
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

/** Whether rows are on their way. */
function isBusy<Item>(read: DataTableProps<Item>['read']): boolean {
  return (read.data === undefined && read.isEnabled) || read.isPlaceholderData;
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
        {countText(held.changeCount, 'change')}: show
      </Button>
    </div>
  );
}

/** `j` and `k` go from row to row, by the first link of each; `x` selects; `r` refreshes. */
function useRowKeys(
  body: RefObject<HTMLTableSectionElement | null>,
  select: (index: number, isRange: boolean) => void,
): void {
  const queryClient = useQueryClient();
  const elements = (): HTMLTableRowElement[] => [
    ...(body.current?.querySelectorAll<HTMLTableRowElement>('tr[data-row]') ?? []),
  ];
  const activeAt = (): number =>
    elements().findIndex((element) => element.contains(document.activeElement));
  const step = (by: 1 | -1): void => {
    const all = elements();
    const at = activeAt();
    const next = at === -1 ? (by === 1 ? 0 : all.length - 1) : at + by;
    const target = all[next]?.querySelector<HTMLElement>('a, button, [data-stop]');
    target?.focus();
    target?.scrollIntoView({ block: 'nearest' });
  };
  useShortcut('j', 'Next row', () => step(1));
  useShortcut('k', 'Previous row', () => step(-1));
  const indexOfActive = (): number => Number(elements()[activeAt()]?.dataset['index'] ?? -1);
  useShortcut('x', 'Select the row', () => select(indexOfActive(), false));
  useShortcut('X', 'Select the rows up to this one', () => select(indexOfActive(), true));
  useShortcut('r', 'Refresh', () => void queryClient.invalidateQueries());
}

const ICONS = { asc: IconArrowUp, desc: IconArrowDown };

/** The head of a column, a button where the list can be sorted by it. */
function ColumnHead<Item>({
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

const FOCUSABLE = 'a[href], button, input, [tabindex]';
const STEPS: Readonly<Record<string, readonly [rows: number, stops: number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

/**
 * One tab stop for each row: its first link, until another part of the row has had the focus. Arrow
 * keys go from part to part, and from row to row. Set on the elements themselves: what cells render
 * need not know the row that it is in. Set before each Tab, because cells change between two.
 */
function useRowStops(body: RefObject<HTMLTableSectionElement | null>): void {
  useEffect(() => {
    const rows = body.current;
    if (rows === null) return undefined;
    const keep = ({ key }: KeyboardEvent): void => {
      if (key !== 'Tab') return;
      for (const row of rowsOf(rows)) setStop(row, stopOf(row));
    };
    const focused = ({ target }: FocusEvent): void => {
      const row = rowOf(target);
      if (row !== null && target instanceof HTMLElement && target.matches(FOCUSABLE)) {
        setStop(row, target);
      }
    };
    const pressed = (event: KeyboardEvent): void => {
      if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
      const next = nextOf(rows, event);
      if (next === undefined) return;
      event.preventDefault();
      next.focus();
      next.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    };
    document.addEventListener('keydown', keep, { capture: true });
    rows.addEventListener('focusin', focused);
    rows.addEventListener('keydown', pressed);
    return () => {
      document.removeEventListener('keydown', keep, { capture: true });
      rows.removeEventListener('focusin', focused);
      rows.removeEventListener('keydown', pressed);
    };
  }, [body]);
}

function rowsOf(body: HTMLElement): HTMLElement[] {
  return [...body.querySelectorAll<HTMLElement>('tr[data-row]')];
}

function rowOf(target: EventTarget | null): HTMLElement | null {
  return target instanceof Element ? target.closest<HTMLElement>('tr[data-row]') : null;
}

/** What can have the focus in a row, as far as it is shown at this width. */
function stopsOf(row: HTMLElement): HTMLElement[] {
  return [...row.querySelectorAll<HTMLElement>(FOCUSABLE)].filter(
    (element) => element.getClientRects().length > 0,
  );
}

function stopOf(row: HTMLElement): HTMLElement | undefined {
  const stops = stopsOf(row);
  return (
    stops.find((element) => element.dataset['stop'] !== undefined) ??
    stops.find((element) => element.matches('a[href]')) ??
    stops[0]
  );
}

function setStop(row: HTMLElement, stop: HTMLElement | undefined): void {
  for (const element of row.querySelectorAll<HTMLElement>(FOCUSABLE)) {
    element.tabIndex = element === stop ? 0 : -1;
    if (element === stop) element.dataset['stop'] = '';
    else delete element.dataset['stop'];
  }
}

/** Where an arrow key leads to; undefined if it leads nowhere. */
function nextOf(body: HTMLElement, { key, target }: KeyboardEvent): HTMLElement | undefined {
  const [byRows, byStops] = STEPS[key] ?? [0, 0];
  const row = rowOf(target);
  if (row === null || (byRows === 0 && byStops === 0)) return undefined;
  const stops = stopsOf(row);
  const at = stops.indexOf(target as HTMLElement);
  if (byStops !== 0) return stops[at + byStops];
  const rows = rowsOf(body);
  const nextRow = rows[rows.indexOf(row) + byRows];
  if (nextRow === undefined) return undefined;
  const others = stopsOf(nextRow);
  return others[Math.min(at, others.length - 1)];
}

/** Marks a region with `data-fits` while it shows the whole width of its table: nothing scrolls sideways. */
function useFits(region: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    const box = region.current;
    const table = box?.querySelector('table');
    if (!box || !table) return undefined;
    const observer = new ResizeObserver(() => {
      box.toggleAttribute('data-fits', table.offsetWidth <= box.clientWidth);
    });
    observer.observe(box);
    observer.observe(table);
    return () => observer.disconnect();
  }, [region]);
}

/** How old the page is, and buttons to other pages if there are any. */
export function TableFooter<Item>({
  read,
  everyMs,
  label,
  state,
  identity,
  rowCount,
  nextCursor = cursorOf(read),
  isOfOthers = false,
  total,
  onPaged,
}: Pick<
  DataTableProps<Item>,
  'read' | 'everyMs' | 'label' | 'state' | 'identity' | 'isOfOthers' | 'total'
> & {
  readonly rowCount: number;
  /** Where the page after the shown rows begins, if those are not the newest. */
  readonly nextCursor?: string | null;
  /** Called when a person asks for another page. */
  readonly onPaged?: () => void;
}) {
  const paging = usePaging(state, { identity, rowCount });
  const isOnly = state.after === null && !paging.hasPrevious && nextCursor === null;
  return (
    <div className={classes['footer']}>
      <DataAge read={read} asOf={read.data?.asOf} everyMs={everyMs} />
      {isOfOthers ? <span className={classes['count']}>other datacenters on a timer</span> : null}
      <Group gap={4} ml="auto" role="group" aria-label={`Pages of ${label}`}>
        <span className={classes['count']}>
          {placeText({
            before: paging.before,
            rowCount: read.data === undefined ? undefined : rowCount,
            hasNext: nextCursor !== null,
            total,
          })}
        </span>
        {isOnly ? null : (
          <Pager
            state={state}
            paging={paging}
            // The rows of the page before stand in: after them comes the page that is on its way.
            nextCursor={read.isPlaceholderData ? null : nextCursor}
            onPaged={onPaged}
          />
        )}
      </Group>
    </div>
  );
}

function Pager({
  state,
  paging,
  nextCursor,
  onPaged,
}: {
  readonly state: TableState;
  readonly paging: ReturnType<typeof usePaging>;
  readonly nextCursor: string | null;
  readonly onPaged: (() => void) | undefined;
}) {
  return (
    <>
      <Button
        variant="default"
        size="compact-xs"
        disabled={state.after === null}
        leftSection={<IconChevronsLeft size={13} />}
        onClick={() => {
          paging.first();
          onPaged?.();
        }}
      >
        First
      </Button>
      <Button
        variant="default"
        size="compact-xs"
        disabled={!paging.hasPrevious}
        leftSection={<IconChevronLeft size={13} />}
        onClick={() => {
          paging.previous();
          onPaged?.();
        }}
      >
        Previous
      </Button>
      <Button
        variant="default"
        size="compact-xs"
        disabled={nextCursor === null}
        rightSection={<IconChevronRight size={13} />}
        onClick={() => {
          if (nextCursor === null) return;
          paging.next(nextCursor);
          onPaged?.();
        }}
      >
        Next
      </Button>
    </>
  );
}

/**
 * Pages by cursor. A cursor leads forward only, so the visited pages are remembered; after a reload
 * in the middle, only "first" and the browser's own Back lead back. How many rows are before a page is
 * in the address beside its cursor, which does not say it.
 */
function usePaging(
  state: Pick<TableState, 'after' | 'setAfter'>,
  { identity, rowCount }: { readonly identity: string; readonly rowCount: number },
) {
  const [told, setTold] = useQueryState('before', integerParam);
  const trail = useRef<{ identity: string; pages: Place[] }>({ identity, pages: [] });
  const here: Place = { after: state.after, before: state.after === null ? 0 : told };
  const { pages } = trail.current;
  const at = pages.findLastIndex(({ after }) => after === state.after);
  const previous = at > 0 ? pages[at - 1] : undefined;
  const goTo = ({ after, before }: Place): void => {
    // Both at once: one step of the history.
    setTold(after === null ? null : before);
    state.setAfter(after);
  };
  return {
    before: here.before,
    hasPrevious: previous !== undefined,
    first(): void {
      trail.current = { identity, pages: [] };
      goTo({ after: null, before: 0 });
    },
    previous(): void {
      if (previous !== undefined) goTo(previous);
    },
    next(after: string): void {
      const next = { after, before: here.before === null ? null : here.before + rowCount };
      trail.current = { identity, pages: [...(at >= 0 ? pages.slice(0, at + 1) : [here]), next] };
      goTo(next);
    },
  };
}

/** A page: the cursor that leads to it, and how many rows are before it; null if that is not known. */
interface Place {
  readonly after: string | null;
  readonly before: number | null;
}
