import type { UseQueryResult } from '@tanstack/react-query';
import dynamic from 'next/dynamic';
import { type ReactNode, useMemo, useState } from 'react';
import { type Count, PHASES } from '@leasehold/keys-core';
import type { ApiError } from '~/lib/api/api.ts';
import { type DatacenterFilter, useDatacenterFilter } from '~/lib/datacenters.ts';
import { fullName } from '~/lib/format.ts';
import { type ListState, useListState } from '~/lib/list-state.ts';
import { withField } from '~/lib/search.ts';
import type { BulkBarProps, StopAllProps } from '~/resources/bulk/bulk-actions.tsx';
import { useBulkId } from '~/resources/bulk/bulk.ts';
import { FACE_WORDS, type GrantFace, type GrantView } from '~/resources/grant-view.ts';
import { PHASE_LOOKS } from '~/resources/looks.tsx';
import { FilterMenu, SearchBox } from '~/ui/filters.tsx';
import { FilterRow } from '~/ui/page.tsx';
import { Foot } from '~/ui/states.tsx';
import type { Column } from '~/ui/table/column.ts';
import { DataTable } from '~/ui/table/data-table.tsx';
import { type ListPage, useSelection } from '~/ui/table/table-state.ts';
import {
  ANY_PHASE,
  type AskedState,
  GRANT_SORTS,
  grantSearchProblems,
  type GrantSort,
  searchWhyNot,
} from './grant-search.ts';
import { DatacenterMenu, NothingFound, withDatacenter } from './list-parts.tsx';

/** The state of a list of grants, from the address. */
export interface GrantListState<Input extends object = object> {
  readonly state: ListState<GrantSort>;
  readonly filter: DatacenterFilter;
  /** What the search asks for that no grant can have: while there is any, the list is not read. */
  readonly problems: readonly string[];
  /** The input of the list's procedure. */
  readonly input: Input;
  /** The options of its query. */
  readonly options: { readonly enabled: boolean };
}

/** `fields`: the search fields that the list knows. `inputOf`: the input of its procedure for them. */
export function useGrantListState<Input extends object>(
  fields: readonly string[],
  inputOf: (state: AskedState) => Input,
): GrantListState<Input & DatacenterFilter['input']> {
  const state = useListState({ fields, sorts: GRANT_SORTS });
  const filter = useDatacenterFilter();
  const problems = grantSearchProblems(state.search);
  const input = { ...inputOf(state), ...filter.input };
  return { state, filter, problems, input, options: { enabled: problems.length === 0 } };
}

/** A list of keys, leases or environments: its filters, its rows, and what can be done with many of them. */
export function GrantList<Item extends GrantView & { readonly datacenter: string }>({
  face,
  list: { state, filter, problems, input },
  read,
  total,
  columns,
  placeholder,
  phaseLabel = 'Phase',
  filters,
  tools,
  children,
}: {
  readonly face: GrantFace;
  readonly list: GrantListState;
  readonly read: UseQueryResult<ListPage<Item>, ApiError>;
  readonly total: Count | undefined;
  readonly columns: readonly Column<Item>[];
  /** What the search box shows while it is empty. */
  readonly placeholder: string;
  readonly phaseLabel?: string;
  /** Further filters of this list. */
  readonly filters?: ReactNode;
  /** What stands at the end of the row of filters. */
  readonly tools?: ReactNode;
  /** What is shown if the list is empty without a search. */
  readonly children: ReactNode;
}) {
  const selection = useSelection<Item>(fullName);
  const shown = useMemo(
    () => withDatacenter(columns, filter.isSeveral),
    [columns, filter.isSeveral],
  );
  const [, many] = FACE_WORDS[face];
  const whyNot = searchWhyNot(problems);
  return (
    <>
      <BulkPanel face={face} />
      <FilterRow>
        <SearchBox
          label={`Search ${many}`}
          placeholder={placeholder}
          value={state.q}
          problems={problems}
          onChange={state.setQ}
        />
        <PhaseFilter label={phaseLabel} state={state} />
        {filters}
        <DatacenterMenu filter={filter} />
        <StopAll {...{ face, input }} searchWhyNot={whyNot} />
        {tools}
      </FilterRow>
      <DataTable
        label={many}
        columns={shown}
        read={read}
        rowId={(item) => item.leaseId}
        state={state}
        identity={JSON.stringify(input)}
        isOfOthers={filter.isOfOthers}
        selection={selection}
        total={total}
        empty={
          <NothingFound what={many} state={state}>
            {children}
          </NothingFound>
        }
      />
      <BulkBar {...{ face, selection, matching: { input, total, whyNot } }} />
    </>
  );
}

const OPTIONS = [
  ...PHASES.map((value) => ({ value, label: PHASE_LOOKS[value].label })),
  { value: ANY_PHASE, label: 'Any, including old ones' },
];

/**
 * The phase that a list is filtered by, as a menu over the search's `phase:`. Unless one is chosen, what
 * ended long ago is left out.
 */
function PhaseFilter({
  label,
  state,
}: {
  readonly label: string;
  readonly state: Pick<ListState<string>, 'q' | 'search' | 'setQ'>;
}) {
  return (
    <FilterMenu
      label={label}
      value={state.search.fields['phase']}
      unset="In use or recently"
      options={OPTIONS}
      onChange={(phase) => state.setQ(withField(state.q, 'phase', phase))}
    />
  );
}

const LoadedPanel = dynamic(
  () => import('~/resources/bulk/bulk-panel.tsx').then((module) => module.BulkPanel),
  {
    ssr: false,
  },
);
const LoadedBar = dynamic(
  () => import('~/resources/bulk/bulk-actions.tsx').then((module) => module.BulkBar),
  {
    ssr: false,
  },
);

const LoadedStopAll = dynamic(
  () => import('~/resources/bulk/bulk-actions.tsx').then((module) => module.StopAll),
  {
    ssr: false,
  },
);

/** Loaded where a list shows one namespace; it stays, because what its dialog began may be under way. */
function StopAll(props: StopAllProps) {
  const isOne = props.input.namespace !== undefined;
  const [wasOne, setWasOne] = useState(isOne);
  if (isOne && !wasOne) setWasOne(true);
  return wasOne ? <LoadedStopAll {...props} /> : null;
}

/** The bulk action in the page's address; its code is loaded where there is one. */
function BulkPanel({ face }: { readonly face: GrantFace }) {
  const [bulkId, setBulkId] = useBulkId();
  if (bulkId === null) return null;
  return (
    <Foot>
      <LoadedPanel key={bulkId} face={face} bulkId={bulkId} onClose={() => setBulkId(null)} />
    </Foot>
  );
}

/** What can be done to the chosen rows; its code is loaded when the first row is chosen. */
function BulkBar(props: BulkBarProps) {
  if (props.selection.count === 0) return null;
  return (
    <Foot>
      <LoadedBar {...props} />
    </Foot>
  );
}
