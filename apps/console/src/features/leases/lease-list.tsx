'use client';

import { Code } from '@mantine/core';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { ExportMenu } from '~/resources/list/export-menu.tsx';
import { GrantList, useGrantListState } from '~/resources/list/grant-list.tsx';
import { LongOver } from '~/resources/list/long-over.tsx';
import { EmptyState } from '~/ui/states/empty-state.tsx';
import { LEASE_COLUMNS } from './lease-columns.tsx';
import { LEASE_FIELDS, leaseListInput } from './lease-search.ts';
import classes from './leases.module.css';

/** Every lease: who holds it, why, for how long, who waits. */
export function LeaseList() {
  const list = useGrantListState(LEASE_FIELDS, leaseListInput);
  const read = useLiveQuery('leases', 'list', list.input, list.options);
  return (
    <div className={classes['list']}>
      <GrantList
        face="lease"
        list={list}
        read={read}
        columns={LEASE_COLUMNS}
        placeholder="Name, or holder: phase: namespace:"
        tools={
          <span className={classes['end']}>
            <ExportMenu list="leases" input={list.input} />
          </span>
        }
      >
        <EmptyState title="No leases" action={<LongOver what="leases" state={list.state} />}>
          Nobody holds one, nor did within the last hour. In a service:{' '}
          <Code>leases.acquire(…)</Code> of <Code>@leasehold/client</Code>.
        </EmptyState>
      </GrantList>
    </div>
  );
}
