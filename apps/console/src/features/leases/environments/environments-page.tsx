'use client';

import { Code } from '@mantine/core';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { GrantList, useGrantListState } from '~/resources/list/grant-list.tsx';
import { ExportMenu, LongOver, useTotal } from '~/resources/list/list-parts.tsx';
import { PageHeader } from '~/ui/page.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { ENVIRONMENT_COLUMNS } from './environment-columns.tsx';
import { ENVIRONMENT_FIELDS, environmentListInput } from './environment-search.ts';
import classes from '../leases.module.css';

/** Every environment: free or held, by whom, for which action, since when. */
export function EnvironmentsPage() {
  const list = useGrantListState(ENVIRONMENT_FIELDS, environmentListInput);
  const read = useLiveQuery('environments', 'list', list.input, list.options);
  const total = useTotal('environments', list.input, read);
  return (
    <>
      <PageHeader
        title="Environments"
        actions={<ExportMenu list="environments" input={list.input} />}
      />
      <div className={classes['list']}>
        <GrantList
          face="environment"
          list={list}
          read={read}
          total={total}
          columns={ENVIRONMENT_COLUMNS}
          placeholder="Part of a name, or holder: phase: action: namespace:"
          phaseLabel="State"
        >
          <EmptyState
            title="No environments"
            action={<LongOver what="environments" state={list.state} />}
          >
            None was held in the last 7 days. An environment appears when a caller first acquires
            it: <Code>withEnvironmentLease(…)</Code> of <Code>@leasehold/client</Code>.
          </EmptyState>
        </GrantList>
      </div>
    </>
  );
}
