'use client';

import { Button, Code, Group } from '@mantine/core';
import { DatacenterMenu } from '~/resources/list/datacenter-menu.tsx';
import { withDatacenter } from '~/resources/list/with-datacenter.tsx';
import { ExportMenu } from '~/resources/list/export-menu.tsx';
import { FilterMenu } from '~/ui/menus/filter-menu.tsx';
import { FilterRow } from '~/ui/page/filter-row.tsx';
import { PageHeader } from '~/ui/page/page-header.tsx';
import { SearchBox } from '~/ui/search-box.tsx';
import { EmptyState } from '~/ui/states/empty-state.tsx';
import { DataTable } from '~/ui/table/data-table.tsx';
import { useSelection } from '~/ui/table/use-selection.ts';
import { BulkBar, BulkPanel } from '~/resources/bulk/lazy-bulk.tsx';
import { fullName } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { withField } from '~/lib/search/search-text.ts';
import {
  useDatacenterFilter,
  type DatacenterFilter,
} from '~/lib/datacenters/use-datacenter-filter.ts';
import { useListState, type ListState } from '~/lib/search/use-list-state.ts';
import { LongOver } from '~/resources/list/long-over.tsx';
import { PhaseFilter } from '~/resources/list/phase-filter.tsx';
import { KEY_COLUMNS, type KeyItem } from './key-columns.tsx';
import {
  KEY_FIELDS,
  KEY_SORTS,
  keyListInput,
  keySearchProblems,
  type KeySort,
} from './key-search.ts';
import classes from './keys.module.css';

/** Every key: who holds it, for how long, with which token. */
export function KeysPage() {
  const state = useListState({ fields: KEY_FIELDS, sorts: KEY_SORTS });
  const selection = useSelection<KeyItem>();
  const problems = keySearchProblems(state.search);
  const filter = useDatacenterFilter();
  const input = { ...keyListInput(state), ...filter.input };
  const read = useLiveQuery('keys', 'list', input, { enabled: problems.length === 0 });
  return (
    <>
      <PageHeader title="Keys" actions={<ExportMenu list="keys" input={input} />} />
      <BulkPanel face="key" />
      <FilterRow>
        <SearchBox
          label="Search keys"
          placeholder="Name, or holder: phase: tag: drone: namespace:"
          value={state.q}
          problems={problems}
          onChange={state.setQ}
        />
        <KeyFilters state={state} filter={filter} />
        <DatacenterMenu filter={filter} />
      </FilterRow>
      <DataTable
        label="keys"
        columns={withDatacenter(KEY_COLUMNS, filter.isSeveral)}
        read={read}
        rowId={(key) => key.leaseId}
        rowName={fullName}
        state={state}
        identity={JSON.stringify(input)}
        isOfOthers={filter.isOfOthers}
        selection={selection}
        empty={<NoKeys state={state} />}
      />
      <BulkBar face="key" selection={selection} />
    </>
  );
}

/** The fields of the search that have few values, as menus. They are kept in the search itself. */
function KeyFilters({
  state,
  filter,
}: {
  readonly state: ListState<KeySort>;
  readonly filter: DatacenterFilter;
}) {
  const drones = useLiveQuery(
    'drones',
    'list',
    { limit: 100, ...filter.input },
    { everyMs: 30_000 },
  );
  const { drone } = state.search.fields;
  const set = (field: string) => (value: string | null) => {
    state.setQ(withField(state.q, field, value));
  };
  return (
    <>
      <PhaseFilter label="Phase" state={state} />
      <FilterMenu
        label="Drone"
        value={drone}
        options={(drones.data?.items ?? []).map(({ droneId }) => ({
          value: droneId,
          label: droneId,
        }))}
        onChange={set('drone')}
      />
    </>
  );
}

function NoKeys({ state }: { readonly state: ListState<KeySort> }) {
  if (state.isFiltered || state.after !== null) {
    return (
      <EmptyState
        title="No key matches"
        action={
          <Group gap="xs" justify="center">
            <Button
              variant="default"
              onClick={() => {
                state.setQ('');
              }}
            >
              Clear the search
            </Button>
            {state.search.fields['phase'] === undefined && <LongOver what="keys" state={state} />}
          </Group>
        }
      >
        Nothing that exists now matches the search. A bare word is the beginning of a name; in
        quotes it is a whole name.
      </EmptyState>
    );
  }
  return (
    <EmptyState title="No keys" action={<LongOver what="keys" state={state} />}>
      Nobody holds a key, nor did within the last hour. To ask for one, from a shell:
      <Code block className={classes['command'] ?? ''}>
        <span className={classes['option']}>npx leasehold connect room-1</span>{' '}
        <span className={classes['option']}>--namespace rooms</span>{' '}
        <span className={classes['option']}>--program room</span>
      </Code>
    </EmptyState>
  );
}
