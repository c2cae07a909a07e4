'use client';

import type { LeaseItem } from '../lease-item.ts';
import { Code } from '@mantine/core';
import { DatacenterMenu } from '~/resources/list/datacenter-menu.tsx';
import { withDatacenter } from '~/resources/list/with-datacenter.tsx';
import { ExportMenu } from '~/resources/list/export-menu.tsx';
import { PageHeader } from '~/ui/page/page-header.tsx';
import { SearchBox } from '~/ui/search-box.tsx';
import { EmptyState } from '~/ui/states/empty-state.tsx';
import { DataTable } from '~/ui/table/data-table.tsx';
import { useSelection } from '~/ui/table/use-selection.ts';
import { BulkBar, BulkPanel } from '~/resources/bulk/lazy-bulk.tsx';
import { fullName } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { useDatacenterFilter } from '~/lib/datacenters/use-datacenter-filter.ts';
import { useListState } from '~/lib/search/use-list-state.ts';
import { LEASE_SORTS, leaseSearchProblems } from '../lease-search.ts';
import { LongOver } from '~/resources/list/long-over.tsx';
import { NothingFound } from '~/resources/list/nothing-found.tsx';
import { PhaseFilter } from '~/resources/list/phase-filter.tsx';
import { ENVIRONMENT_COLUMNS } from './environment-columns.tsx';
import { ENVIRONMENT_FIELDS, environmentListInput } from './environment-search.ts';
import classes from '../leases.module.css';

/** Every environment: free or held, by whom, for which action, since when. */
export function EnvironmentsPage() {
  const state = useListState({ fields: ENVIRONMENT_FIELDS, sorts: LEASE_SORTS });
  const selection = useSelection<LeaseItem>();
  const filter = useDatacenterFilter();
  const input = { ...environmentListInput(state), ...filter.input };
  const problems = leaseSearchProblems(state.search);
  const read = useLiveQuery('environments', 'list', input, { enabled: problems.length === 0 });
  return (
    <>
      <PageHeader title="Environments" actions={<ExportMenu list="environments" input={input} />} />
      <div className={classes['list']}>
        <BulkPanel face="environment" />
        <div className={classes['bar']}>
          <SearchBox
            label="Search environments"
            placeholder="Name, or holder: phase: action: namespace:"
            value={state.q}
            problems={problems}
            onChange={state.setQ}
          />
          <PhaseFilter label="State" state={state} />
          <DatacenterMenu filter={filter} />
        </div>
        <DataTable
          label="environments"
          columns={withDatacenter(ENVIRONMENT_COLUMNS, filter.isSeveral)}
          read={read}
          rowId={(environment) => environment.leaseId}
          rowName={fullName}
          state={state}
          identity={JSON.stringify(input)}
          isOfOthers={filter.isOfOthers}
          selection={selection}
          empty={
            <NothingFound what="environments" state={state}>
              <NoEnvironments state={state} />
            </NothingFound>
          }
        />
        <BulkBar face="environment" selection={selection} />
      </div>
    </>
  );
}

function NoEnvironments({ state }: { readonly state: Parameters<typeof LongOver>[0]['state'] }) {
  return (
    <EmptyState title="No environments" action={<LongOver what="environments" state={state} />}>
      None was used within the last 7 days. An environment appears when somebody first asks for it:{' '}
      <Code>withEnvironmentLease(…)</Code> of <Code>@leasehold/client</Code>.
    </EmptyState>
  );
}
