import { column, type Column } from '~/ui/table/column.ts';
import { EmptyState } from '~/ui/states/states.tsx';
import { DataTable } from '~/ui/table/data-table.tsx';
import { Mono, RelativeTime } from '~/ui/text/text.tsx';
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
      {...table}
      empty={<EmptyState title="No history">The history is no longer kept.</EmptyState>}
    />
  );
}

const COLUMNS: Column<UseRow>[] = [
  column('From', {}, (use) =>
    use.from === null ? 'before' : <RelativeTime at={use.from} asOf={use.asOf} />,
  ),
  column('Held for', { from: 'lg' }, (use) => <Lasted use={use} />),
  column('By whom', {}, (use) =>
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
  ),
  column('Action', { from: 'md' }, (use) =>
    use.action === null ? (
      '–'
    ) : (
      <Mono>
        <bdi>{use.action}</bdi>
      </Mono>
    ),
  ),
  column('Comment', { from: 'md', isFilling: true }, (use) => (
    <bdi title={use.comment ?? ''}>{use.comment ?? '–'}</bdi>
  )),
  column('How it ended', {}, (use) => {
    const text = storyOf(use);
    return (
      <span className={classes['ended']} title={text}>
        {text}
      </span>
    );
  }),
  column('Token', { from: 'lg', align: 'end' }, (use) => <Mono>{use.fencingToken}</Mono>),
];

function Lasted({ use }: { readonly use: UseRow }) {
  if (use.from === null || (use.to === null && !use.isLasting)) return '–';
  if (use.to === null) return <Waited since={use.from} asOf={use.asOf} />;
  return duration(Date.parse(use.to) - Date.parse(use.from));
}
