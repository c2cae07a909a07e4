import type { WaiterView } from '@leasehold/keys-core';
import { count, duration } from '~/lib/format.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import type { ResourceRef } from '~/lib/routes.ts';
import { GROUP_OF } from '~/resources/grant-view.ts';
import { EmptyState } from '~/ui/states.tsx';
import { column, type Column } from '~/ui/table/column.ts';
import { DataTable } from '~/ui/table/data-table.tsx';
import { mapItems } from '~/ui/table/table-state.ts';
import { CopyableId, Mono, RelativeTime } from '~/ui/text.tsx';
import { useDetailList } from './use-detail-list.ts';

/** Waiters come and go without events. */
const EVERY_MS = 1_500;

interface WaiterRow extends WaiterView {
  /** From 1; null on later pages, which do not know how many come before. */
  readonly place: number | null;
  readonly asOf: string;
}

/** The waiters, first in line first: place, who, since when and for how long. */
export function WaitersPanel({
  face,
  resource,
  asOf,
}: {
  readonly face: 'key' | 'lease';
  readonly resource: ResourceRef;
  readonly asOf: string;
}) {
  const { input, isFirstPage, table } = useDetailList(resource);
  const read = useLiveQuery(GROUP_OF[face], 'waiters', input, { everyMs: EVERY_MS });
  const rows = (read.data?.items ?? []).map((waiter, index) => ({
    ...waiter,
    place: isFirstPage ? index + 1 : null,
    asOf,
  }));
  return (
    <DataTable
      label="waiters"
      columns={COLUMNS}
      read={mapItems(read, rows, asOf)}
      rowId={(waiter) => waiter.ticketId}
      {...table}
      empty={
        <EmptyState title="Nobody is waiting">
          The next caller is the first in the queue.
        </EmptyState>
      }
    />
  );
}

const COLUMNS: Column<WaiterRow>[] = [
  column('Place', {}, (waiter) =>
    waiter.place === null ? '–' : <Mono>{count(waiter.place)}</Mono>,
  ),
  column('Waiter', {}, (waiter) => <Mono title={waiter.waiter}>{waiter.waiter}</Mono>),
  column('Since', { from: 'md' }, (waiter) => (
    <RelativeTime at={waiter.since} asOf={waiter.asOf} />
  )),
  column('Waited', {}, (waiter) => <Waited waiter={waiter} />),
  column('Ticket', { from: 'md' }, (waiter) => (
    <CopyableId id={waiter.ticketId} label="ticket id" isShort />
  )),
];

function Waited({ waiter }: { readonly waiter: WaiterRow }) {
  const nowMs = useDatabaseNow();
  const sinceMs = Date.parse(waiter.since);
  return duration(nowMs === null ? waiter.waitedMs : nowMs - sinceMs);
}
