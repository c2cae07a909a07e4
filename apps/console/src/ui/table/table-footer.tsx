'use client';

import { Button, Group } from '@mantine/core';
import { IconChevronLeft, IconChevronRight, IconChevronsLeft } from '@tabler/icons-react';
import { counted } from '~/lib/format.ts';
import { DataAge } from '../states/data-age.tsx';
import type { DataTableProps, TableState } from './table-types.ts';
import { usePaging } from './use-paging.ts';
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
