import { Button, Group } from '@mantine/core';
import { IconChevronLeft, IconChevronRight, IconChevronsLeft } from '@tabler/icons-react';
import { useRef } from 'react';
import { integerParam, useQueryState } from '~/lib/address.ts';
import { DataAge } from '~/ui/stale.tsx';
import { type DataTableProps, placeText, type TableState } from './table-state.ts';
import classes from './data-table.module.css';

/** How old the page is, and buttons to other pages if there are any. */
export function TableFooter<Item>({
  read,
  label,
  state,
  identity,
  rowCount,
  isOfOthers = false,
  total,
  onPaged,
}: Pick<DataTableProps<Item>, 'read' | 'label' | 'state' | 'identity' | 'isOfOthers' | 'total'> & {
  readonly rowCount: number;
  /** Called when a person asks for another page. */
  readonly onPaged?: () => void;
}) {
  const paging = usePaging(state, { identity, rowCount });
  const nextCursor = read.data?.nextCursor ?? null;
  const isOnly = state.after === null && !paging.hasPrevious && nextCursor === null;
  return (
    <div className={classes['footer']}>
      <DataAge read={read} asOf={read.data?.asOf} />
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
