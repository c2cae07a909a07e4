'use client';

import type { LeaseItem } from './lease-item.ts';
import { Code } from '@mantine/core';
import { SearchBox } from '~/components/search-box.tsx';
import { EmptyState } from '~/components/states/empty-state.tsx';
import { DataTable } from '~/components/table/data-table.tsx';
import { useSelection } from '~/components/table/use-selection.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { useListState } from '~/lib/use-list-state.ts';
import { LEASE_COLUMNS } from './lease-columns.tsx';
import { LEASE_FIELDS, LEASE_SORTS, leaseListInput } from './lease-search.ts';
import classes from './leases.module.css';

/** Every lease: who holds it, why, for how long, who waits. */
export function LeaseList() {
  const state = useListState({ fields: LEASE_FIELDS, sorts: LEASE_SORTS });
  const selection = useSelection<LeaseItem>();
  const input = leaseListInput(state);
  const read = useLiveQuery('leases', 'list', input);
  return (
    <>
      <div className={classes['bar']}>
        <SearchBox
          label="Search leases"
          placeholder="Name, or holder: phase: namespace:"
          value={state.q}
          problems={state.search.problems}
          onChange={state.setQ}
        />
      </div>
      <DataTable
        label="leases"
        columns={LEASE_COLUMNS}
        read={read}
        rowId={(lease) => lease.leaseId}
        rowName={(lease) => lease.name}
        state={state}
        identity={JSON.stringify(input)}
        selection={selection}
        empty={<NoLeases />}
      />
    </>
  );
}

function NoLeases() {
  return (
    <EmptyState title="No leases">
      No service has acquired one yet. In a service: <Code>leases.acquire(…)</Code> of{' '}
      <Code>@leasehold/client</Code>.
    </EmptyState>
  );
}
