'use client';

import { Code } from '@mantine/core';
import dynamic from 'next/dynamic';
import { count } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routes } from '~/lib/routes.ts';
import { GrantList, useGrantListState } from '~/resources/list/grant-list.tsx';
import { LEASE_FIELDS, leaseListInput } from '~/resources/list/grant-search.ts';
import { ExportMenu, LongOver, useTotal } from '~/resources/list/list-parts.tsx';
import { PhaseBadge, Remaining } from '~/resources/looks.tsx';
import { DetailTabs } from '~/ui/detail-page.tsx';
import { PageHeader } from '~/ui/page.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { type Column, column } from '~/ui/table/column.ts';
import { Mono, RelativeTime, Under } from '~/ui/text.tsx';
import {
  CommentCell,
  HolderCell,
  type LeaseItem,
  NameCell,
  NamespaceCell,
} from './lease-cells.tsx';
import classes from './leases.module.css';

// What a first visit does not show is loaded with its tab.
const WaitsTab = dynamic(() => import('./waits-tab.tsx').then((module) => module.WaitsTab));

const CallbacksTab = dynamic(() =>
  import('./lease-tabs.tsx').then((module) => module.CallbacksTab),
);

const DeclaredTab = dynamic(() => import('./lease-tabs.tsx').then((module) => module.DeclaredTab));

const TreeTab = dynamic(() => import('./tree-tab.tsx').then((module) => module.TreeTab));

/** What the address says of one view: another starts without its filters and order. */
const OF_ONE_VIEW = ['q', 'sort', 'dir', 'within', 'bulk'];

/** The leases of services: one by one, by namespace, by who waits for whom, by who declared them; and what fails after them. */
export function LeasesPage() {
  return (
    <>
      <PageHeader title="Leases" />
      <DetailTabs
        label="Views of leases"
        others={OF_ONE_VIEW}
        panelClassName={classes['panel']}
        tabs={[
          { value: 'list', label: 'List', panel: <LeaseList /> },
          { value: 'tree', label: 'Namespaces', panel: <TreeTab /> },
          { value: 'waits', label: 'Waits', panel: <WaitsTab /> },
          { value: 'declared', label: 'Declared', panel: <DeclaredTab /> },
          { value: 'callbacks', label: 'Failing callbacks', panel: <CallbacksTab /> },
        ]}
      />
    </>
  );
}

/** Every lease: who holds it, why, for how long, who waits. */
function LeaseList() {
  const list = useGrantListState(LEASE_FIELDS, leaseListInput);
  const read = useLiveQuery('leases', 'list', list.input, list.options);
  const total = useTotal('leases', list.input, read);
  return (
    <div className={classes['list']}>
      <GrantList
        face="lease"
        list={list}
        read={read}
        total={total}
        columns={COLUMNS}
        placeholder="Part of a name, or holder: phase: namespace:"
        tools={
          <span className={classes['end']}>
            <ExportMenu list="leases" input={list.input} isDisabled={!list.options.enabled} />
          </span>
        }
      >
        <EmptyState title="No leases" action={<LongOver what="leases" state={list.state} />}>
          No lease was held in the last hour. Acquire one in a service:{' '}
          <Code>leases.acquire(…)</Code> of <Code>@leasehold/client</Code>.
        </EmptyState>
      </GrantList>
    </div>
  );
}

const COLUMNS: Column<LeaseItem>[] = [
  column('Namespace', { sort: 'name', from: 'md' }, (lease) => <NamespaceCell resource={lease} />),
  column('Lease', { sort: 'name' }, (lease) => (
    <>
      <NameCell resource={lease} href={routes.lease(lease)} />
      <Under upTo="sm">
        <HolderCell lease={lease} />
      </Under>
    </>
  )),
  column('Phase', {}, (lease) => <PhaseBadge phase={lease.phase} />),
  column('Holder', { from: 'sm' }, (lease) => <HolderCell lease={lease} />),
  column('Comment', { from: 'lg', isFilling: true }, (lease) => <CommentCell lease={lease} />),
  column('Remaining', { sort: 'expiresAt' }, (lease) => <Remaining {...lease} />),
  column('Waiting', { from: 'sm', align: 'end' }, (lease) => (
    <span className={lease.waiters > 0 ? classes['waiting'] : 'dimmed'}>
      {count(lease.waiters)}
    </span>
  )),
  column('Token', { from: 'xl', align: 'end' }, (lease) => <Mono>{lease.fencingToken}</Mono>),
  column('Granted', { sort: 'grantedAt', from: 'lg' }, (lease) => (
    <RelativeTime at={lease.grantedAt} asOf={lease.asOf} />
  )),
];
