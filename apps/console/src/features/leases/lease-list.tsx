'use client';

import { Code } from '@mantine/core';
import { DatacenterMenu } from '~/resources/list/datacenter-menu.tsx';
import { withDatacenter } from '~/resources/list/with-datacenter.tsx';
import { ExportMenu } from '~/resources/list/export-menu.tsx';
import { SearchBox } from '~/ui/search-box.tsx';
import { EmptyState } from '~/ui/states/empty-state.tsx';
import { DataTable } from '~/ui/table/data-table.tsx';
import { useSelection } from '~/ui/table/use-selection.ts';
import { BulkBar, BulkPanel } from '~/resources/bulk/lazy-bulk.tsx';
import { fullName } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { useDatacenterFilter } from '~/lib/datacenters/use-datacenter-filter.ts';
import { useListState } from '~/lib/search/use-list-state.ts';
import { LEASE_COLUMNS } from './lease-columns.tsx';
import type { LeaseItem } from './lease-item.ts';
import { LEASE_FIELDS, LEASE_SORTS, leaseListInput, leaseSearchProblems } from './lease-search.ts';
import { LongOver } from '~/resources/list/long-over.tsx';
import { NothingFound } from '~/resources/list/nothing-found.tsx';
import { PhaseFilter } from '~/resources/list/phase-filter.tsx';
import classes from './leases.module.css';

/** Every lease: who holds it, why, for how long, who waits. */
export function LeaseList() {
  const state = useListState({ fields: LEASE_FIELDS, sorts: LEASE_SORTS });
  const selection = useSelection<LeaseItem>();
  const filter = useDatacenterFilter();
  const input = { ...leaseListInput(state), ...filter.input };
  const problems = leaseSearchProblems(state.search);
  const read = useLiveQuery('leases', 'list', input, { enabled: problems.length === 0 });
  return (
    <div className={classes['list']}>
      <BulkPanel face="lease" />
      <div className={classes['bar']}>
        <SearchBox
          label="Search leases"
          placeholder="Name, or holder: phase: namespace:"
          value={state.q}
          problems={problems}
          onChange={state.setQ}
        />
        <PhaseFilter label="Phase" state={state} />
        <DatacenterMenu filter={filter} />
        <span className={classes['end']}>
          <ExportMenu list="leases" input={input} />
        </span>
      </div>
      <DataTable
        label="leases"
        columns={withDatacenter(LEASE_COLUMNS, filter.isSeveral)}
        read={read}
        rowId={(lease) => lease.leaseId}
        rowName={fullName}
        state={state}
        identity={JSON.stringify(input)}
        isOfOthers={filter.isOfOthers}
        selection={selection}
        empty={
          <NothingFound what="leases" state={state}>
            <EmptyState title="No leases" action={<LongOver what="leases" state={state} />}>
              Nobody holds one, nor did within the last hour. In a service:{' '}
              <Code>leases.acquire(…)</Code> of <Code>@leasehold/client</Code>.
            </EmptyState>
          </NothingFound>
        }
      />
      <BulkBar face="lease" selection={selection} />
    </div>
  );
}
