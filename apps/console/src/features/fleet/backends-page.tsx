'use client';

import { SegmentedControl } from '@mantine/core';
import { useMemo } from 'react';
import { BACKEND_SORTS, BACKEND_STATUSES } from '@leasehold/keys-core';
import { flagParam, textParam, useQueryStates } from '~/lib/address.ts';
import { useDatacenterFilter } from '~/lib/datacenters.ts';
import { useSort } from '~/lib/list-state.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { parseSearch } from '~/lib/search.ts';
import { BACKEND_LOOKS } from '~/resources/backend-looks.ts';
import { DatacenterMenu, useTotal, withDatacenter } from '~/resources/list/list-parts.tsx';
import { FilterMenu, SearchBox } from '~/ui/filters.tsx';
import { FilterRow, PageHeader } from '~/ui/page.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { DataTable } from '~/ui/table/data-table.tsx';
import { BACKEND_FIELDS, backendColumns, backendListInput, statusOf } from './backends.tsx';

/** States of backends make no events of their own. */
const EVERY_MS = 3_000;
const COLUMNS = backendColumns();
const STATUS_OPTIONS = BACKEND_STATUSES.map((value) => ({
  value,
  label: BACKEND_LOOKS[value].label,
}));

/** What runs, where, under which key; newest first. */
export function BackendsPage() {
  const [address, setAddress] = useQueryStates({
    q: textParam.withDefault(''),
    status: textParam,
    live: flagParam.withDefault(false),
    after: textParam,
  });
  const search = useMemo(() => parseSearch(address.q, BACKEND_FIELDS), [address.q]);
  const filter = useDatacenterFilter();
  const sorted = useSort(BACKEND_SORTS, 'desc');
  // What is sorted by what it uses is running.
  const live = address.live || sorted.input.sort !== 'created';
  const input = {
    ...backendListInput({ ...address, live, search }),
    ...sorted.input,
    ...filter.input,
  };
  const read = useLiveQuery('backends', 'list', input, { everyMs: EVERY_MS });
  const total = useTotal('backends', input, read);
  const isFiltered = address.q !== '' || address.status !== null || address.live;
  return (
    <>
      <PageHeader title="Backends" />
      <FilterRow>
        <SearchBox
          label="Search backends"
          placeholder="Whole name of a key, or drone: program: namespace:"
          value={address.q}
          problems={search.problems}
          onChange={(q) => setAddress({ q: q === '' ? null : q, after: null })}
        />
        <FilterMenu
          label="Status"
          value={statusOf(address.status) ?? undefined}
          options={STATUS_OPTIONS}
          onChange={(status) => setAddress({ status, after: null })}
        />
        <DatacenterMenu filter={filter} />
        <SegmentedControl
          aria-label="Which backends"
          value={live ? 'running' : 'all'}
          data={[
            { value: 'all', label: 'All' },
            { value: 'running', label: 'Running' },
          ]}
          onChange={(value) => setAddress({ live: value === 'running' || null, after: null })}
        />
      </FilterRow>
      <DataTable
        label="backends"
        columns={withDatacenter(COLUMNS, filter.isSeveral)}
        read={read}
        rowId={(backend) => backend.backendId}
        state={{
          ...sorted.table,
          after: address.after,
          setAfter: (after) => setAddress({ after }),
        }}
        identity={JSON.stringify(input)}
        isOfOthers={filter.isOfOthers}
        total={total}
        empty={
          isFiltered ? (
            <EmptyState title="No backends match">Remove a filter to see the others.</EmptyState>
          ) : (
            <EmptyState title="No backends">
              A backend starts when a caller connects to a free key.
            </EmptyState>
          )
        }
      />
    </>
  );
}
