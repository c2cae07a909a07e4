import { type Face, FACES } from '@leasehold/keys-core';
import { Button } from '@mantine/core';
import { parseAsString, parseAsStringLiteral, useQueryStates } from 'nuqs';
import { useState } from 'react';
import { type DatacenterFilter, useDatacenterFilter } from '~/lib/datacenters.ts';
import { counted } from '~/lib/format.ts';
import { type ListState, useListState } from '~/lib/list-state.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { DatacenterMenu } from '~/resources/list/list-parts.tsx';
import { FilterMenu, SearchBox } from '~/ui/filters.tsx';
import { FilterRow } from '~/ui/page.tsx';
import { StaleScope } from '~/ui/stale.tsx';
import { EmptyState, ErrorState, UnreachableNotice } from '~/ui/states.tsx';
import { useHeldRows } from '~/ui/table/held-rows.ts';
import { TableFooter } from '~/ui/table/table-footer.tsx';
import { type Line, linesOf } from './contention-groups.ts';
import { ContentionTable } from './contention-table.tsx';
import classes from '../leases.module.css';

const FACE_LABELS: Record<Face, string> = {
  key: 'Keys',
  lease: 'Leases',
  environment: 'Environments',
};
const FACE_OPTIONS = FACES.map((value) => ({ value, label: FACE_LABELS[value] }));
const PAGE_ROWS = 200;
/** Waiters come and go without events. */
const EVERY_MS = 1_500;

/** Who waits for whom, the longest wait first. */
export function ContentionTab() {
  const state = useListState({ fields: ['namespace'], sorts: ['since'] });
  const filter = useDatacenterFilter();
  const [{ type: face }, setAddress] = useQueryStates(
    { type: parseAsStringLiteral(FACES), after: parseAsString },
    { history: 'push' },
  );
  const { fields, name, contains } = state.search;
  const namespace = (fields['namespace'] ?? name ?? contains ?? '').replace(/\.+$/u, '');
  return (
    <>
      <FilterRow>
        <SearchBox
          label="Search by namespace"
          placeholder="Namespace, children included"
          value={state.q}
          problems={state.search.problems}
          onChange={state.setQ}
        />
        <FilterMenu
          label="Type"
          value={face ?? undefined}
          options={FACE_OPTIONS}
          onChange={(value) =>
            void setAddress({ type: FACES.find((one) => one === value) ?? null, after: null })
          }
        />
        <DatacenterMenu filter={filter} />
      </FilterRow>
      <Lines {...{ face, namespace, state, filter }} />
    </>
  );
}

function Lines({
  face,
  namespace,
  state,
  filter,
}: {
  readonly face: Face | null;
  readonly namespace: string;
  readonly state: ListState<'since'>;
  readonly filter: DatacenterFilter;
}) {
  const input = {
    limit: PAGE_ROWS,
    faces: face === null ? [...FACES] : [face],
    ...filter.input,
    namespace: namespace || undefined,
    cursor: state.after ?? undefined,
  };
  const identity = JSON.stringify(input);
  const read = useLiveQuery('leases', 'contention', input, { everyMs: EVERY_MS });
  const [isTouched, setTouched] = useState(false);
  const newest = linesOf(read.data?.items ?? []);
  const held = useHeldRows<Line>(newest, {
    identity,
    isStandIn: read.isPlaceholderData,
    isHeld: isTouched,
    rowId: ({ id }) => id,
  });
  const table = {
    lines: held.rows,
    asOf: read.data?.asOf,
    isLoading: read.data === undefined,
    onTouched: setTouched,
  };
  if (read.data === undefined && read.isError) {
    return <ErrorState read={read} what="the waiters" />;
  }
  return (
    <StaleScope read={read}>
      <UnreachableNotice unreachable={read.data?.unreachable} />
      <Changes count={held.changeCount} onShow={held.showAll} />
      <ContentionTable {...table} empty={<NobodyWaits namespace={namespace} />} />
      <TableFooter
        read={read}
        label="waiters"
        state={state}
        identity={identity}
        rowCount={read.data?.items.length ?? 0}
        isOfOthers={filter.isOfOthers}
      />
    </StaleScope>
  );
}

function Changes({ count, onShow }: { readonly count: number; readonly onShow: () => void }) {
  if (count === 0) return null;
  return (
    <Button variant="light" size="compact-xs" className={classes['changes'] ?? ''} onClick={onShow}>
      {counted(count, 'change')}: show
    </Button>
  );
}

function NobodyWaits({ namespace }: { readonly namespace: string }) {
  return (
    <EmptyState title="Nobody is waiting">
      {namespace === ''
        ? 'Every caller that asked for a key, a lease or an environment got it, or was refused at once.'
        : `Nobody is waiting for anything in ${namespace} or below it.`}
    </EmptyState>
  );
}
