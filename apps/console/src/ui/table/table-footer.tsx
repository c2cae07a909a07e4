import { Button, Group } from '@mantine/core';
import { IconChevronLeft, IconChevronRight, IconChevronsLeft } from '@tabler/icons-react';
import { counted } from '~/lib/format.ts';
import { DataAge } from '../states/data-age.tsx';
import type { DataTableProps, TableState } from './table-types.ts';
import { useRef } from 'react';
import classes from './data-table.module.css';

/** How old the page is, and buttons to other pages if there are any. */
export function TableFooter<Item>({
  read,
  label,
  state,
  identity,
  rowCount,
  isOfOthers = false,
  onPaged,
}: Pick<DataTableProps<Item>, 'read' | 'label' | 'state' | 'identity' | 'isOfOthers'> & {
  readonly rowCount: number;
  /** Called when a person asks for another page. */
  readonly onPaged?: () => void;
}) {
  const paging = usePaging(state, identity);
  const nextCursor = read.data?.nextCursor ?? null;
  const isOnly = state.after === null && !paging.hasPrevious && nextCursor === null;
  return (
    <div className={classes['footer']}>
      <DataAge read={read} asOf={read.data?.asOf} />
      {isOfOthers ? <span className={classes['count']}>other datacenters on a timer</span> : null}
      <Group gap={4} ml="auto" role="group" aria-label={`Pages of ${label}`}>
        <span className={classes['count']}>{counted(rowCount, 'row')}</span>
        {isOnly ? null : (
          <Pager state={state} paging={paging} nextCursor={nextCursor} onPaged={onPaged} />
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
 * in the middle, only "first" and the browser's own Back lead back.
 */
function usePaging(
  state: { readonly after: string | null; readonly setAfter: (after: string | null) => void },
  identity: string,
) {
  const trail = useRef<{ identity: string; cursors: (string | null)[] }>({ identity, cursors: [] });
  const { cursors } = trail.current;
  const at = cursors.lastIndexOf(state.after);
  const before = at > 0 ? cursors.slice(0, at) : [];
  const hasPrevious = before.length > 0;
  return {
    hasPrevious,
    first(): void {
      trail.current = { identity, cursors: [] };
      state.setAfter(null);
    },
    previous(): void {
      state.setAfter(before.at(-1) ?? null);
    },
    next(cursor: string): void {
      const come = at >= 0 ? cursors.slice(0, at + 1) : [state.after];
      trail.current = { identity, cursors: [...come, cursor] };
      state.setAfter(cursor);
    },
  };
}
