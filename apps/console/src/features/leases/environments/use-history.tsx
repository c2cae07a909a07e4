'use client';

import type { ColumnDef } from '@tanstack/react-table';
import { EmptyState } from '~/ui/states/empty-state.tsx';
import { DataTable } from '~/ui/table/data-table.tsx';
import { Mono } from '~/ui/text/mono.tsx';
import { RelativeTime } from '~/ui/text/relative-time.tsx';
import { duration } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import type { ResourceRef } from '~/lib/routes.ts';
import { storyOf } from '~/resources/timeline/grants-of-events.ts';
import { useDetailList } from '~/resources/detail/use-detail-list.ts';
import { mapItems } from '~/ui/table/map-items.ts';
import { Waited } from '../waited.tsx';
import classes from '../leases.module.css';
import { usesOfEvents, type PastUse } from './uses-of-events.ts';

type UseRow = PastUse & { readonly asOf: string };

/** Who used an environment, for what, from when, for how long, and how it ended; newest first. */
export function UseHistory({
  resource,
  asOf,
}: {
  readonly resource: ResourceRef;
  readonly asOf: string;
}) {
  const { input, isFirstPage, table } = useDetailList(resource);
  const read = useLiveQuery('environments', 'history', input);
  const uses = usesOfEvents(read.data?.items ?? [], { isNewestPage: isFirstPage });
  const rows = uses.map((use) => ({ ...use, asOf }));
  return (
    <DataTable
      label="uses"
      columns={COLUMNS}
      read={mapItems(read, rows, asOf)}
      rowId={(use) => use.leaseId}
      rowName={(use) => `the use with token ${use.fencingToken}`}
      {...table}
      empty={
        <EmptyState title="No history">Nothing of its past is kept: events are pruned.</EmptyState>
      }
    />
  );
}

const COLUMNS: ColumnDef<UseRow>[] = [
  {
    id: 'from',
    header: 'From',
    cell: ({ row: { original: use } }) =>
      use.from === null ? 'before' : <RelativeTime at={use.from} asOf={use.asOf} />,
  },
  {
    id: 'lasted',
    header: 'Lasted',
    meta: { from: 'lg' },
    cell: ({ row: { original: use } }) => <Lasted use={use} />,
  },
  {
    id: 'holder',
    header: 'By whom',
    cell: ({ row: { original: use } }) =>
      use.holder === null ? (
        '–'
      ) : (
        <>
          <Mono title={use.holder}>
            <bdi>{use.holder}</bdi>
          </Mono>
          {use.action === null ? null : <bdi className={classes['under']}>{use.action}</bdi>}
        </>
      ),
  },
  {
    id: 'action',
    header: 'For',
    meta: { from: 'md' },
    cell: ({ row: { original: use } }) =>
      use.action === null ? (
        '–'
      ) : (
        <Mono>
          <bdi>{use.action}</bdi>
        </Mono>
      ),
  },
  {
    id: 'comment',
    header: 'Comment',
    meta: { from: 'md', isFilling: true },
    cell: ({ row: { original: use } }) => <bdi title={use.comment ?? ''}>{use.comment ?? '–'}</bdi>,
  },
  {
    id: 'end',
    header: 'How it ended',
    cell: ({ row: { original: use } }) => {
      const text = storyOf(use);
      return (
        <span className={classes['ended']} title={text}>
          {text}
        </span>
      );
    },
  },
  {
    id: 'token',
    header: 'Token',
    meta: { from: 'lg', align: 'end' },
    cell: ({ row: { original: use } }) => <Mono>{use.fencingToken}</Mono>,
  },
];

function Lasted({ use }: { readonly use: UseRow }) {
  if (use.from === null || (use.to === null && !use.isLasting)) return '–';
  if (use.to === null) return <Waited since={use.from} asOf={use.asOf} />;
  return duration(Date.parse(use.to) - Date.parse(use.from));
}
