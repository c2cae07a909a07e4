'use client';

import { Code } from '@mantine/core';
import dynamic from 'next/dynamic';
import type { Outputs } from '~/lib/api/api.ts';
import { count, fullName } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routes } from '~/lib/routes.ts';
import { GrantList, useGrantListState } from '~/resources/list/grant-list.tsx';
import { ExportMenu, LongOver, useTotal } from '~/resources/list/list-parts.tsx';
import { PhaseBadge, Remaining } from '~/resources/looks.tsx';
import { DetailTabs } from '~/ui/detail-page.tsx';
import { PageHeader } from '~/ui/page.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { column, type Column } from '~/ui/table/column.ts';
import { Link, Mono, RelativeTime, Under, VisibleText } from '~/ui/text.tsx';
import {
  ENVIRONMENT_FIELDS,
  environmentListInput,
  LEASE_FIELDS,
  leaseListInput,
} from './lease-search.ts';
import classes from './leases.module.css';

// What a first visit does not show is loaded with its tab.
const ContentionTab = dynamic(() =>
  import('./contention-tab.tsx').then((module) => module.ContentionTab),
);
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
          { value: 'contention', label: 'Contention', panel: <ContentionTab /> },
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
        columns={LEASE_COLUMNS}
        placeholder="Part of a name, or holder: phase: namespace:"
        tools={
          <span className={classes['end']}>
            <ExportMenu list="leases" input={list.input} />
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

/** A name in its own text direction; with its namespace, where no column shows it. */
function NameCell({
  resource,
  href,
}: {
  readonly resource: { readonly namespace: string; readonly name: string };
  readonly href: string;
}) {
  return (
    <>
      {resource.namespace === '' ? null : (
        <span className={classes['under']}>
          <VisibleText>{resource.namespace}</VisibleText>
        </span>
      )}
      <Link href={href} title={fullName(resource)} className={classes['name'] ?? ''}>
        <VisibleText>{resource.name}</VisibleText>
      </Link>
    </>
  );
}

/** The namespace: before the name, because rows are in the order of both. */
function NamespaceCell({
  resource: { namespace },
}: {
  readonly resource: { readonly namespace: string };
}) {
  return (
    <span title={namespace}>
      <VisibleText>{namespace || '–'}</VisibleText>
    </span>
  );
}

/** The holder; for a free lease the last holder, marked as such. */
function HolderCell({ lease }: { readonly lease: LeaseItem }) {
  if (isTaken(lease)) {
    return (
      <span className={`${classes['holder'] ?? ''} mono`} data-holder title={lease.holder}>
        <VisibleText>{lease.holder}</VisibleText>
      </span>
    );
  }
  return (
    <span
      className={`${classes['holder'] ?? ''} dimmed`}
      data-holder
      title={`Last held by ${lease.holder}`}
    >
      last <Mono>{lease.holder}</Mono>
    </span>
  );
}

/** The holder's comment; pale for a free lease. */
function CommentCell({ lease }: { readonly lease: LeaseItem }) {
  const tone = isTaken(lease) ? '' : 'dimmed';
  return (
    <span className={`${classes['comment'] ?? ''} ${tone}`} dir="auto" title={lease.comment ?? ''}>
      <VisibleText>{lease.comment ?? '–'}</VisibleText>
    </span>
  );
}

const LEASE_COLUMNS: Column<LeaseItem>[] = [
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

/** The last holder and the last action of a free environment are pale. */
const tone = (environment: LeaseItem): string => (isTaken(environment) ? '' : 'dimmed');

const ENVIRONMENT_COLUMNS: Column<LeaseItem>[] = [
  column('Namespace', { sort: 'name', from: 'md' }, (environment) => (
    <NamespaceCell resource={environment} />
  )),
  column('Environment', { sort: 'name' }, (environment) => (
    <>
      <NameCell resource={environment} href={routes.environment(environment)} />
      <Under upTo="sm">
        <HolderCell lease={environment} />
      </Under>
    </>
  )),
  column('State', {}, (environment) => <PhaseBadge phase={environment.phase} />),
  column('Holder', { from: 'sm' }, (environment) => <HolderCell lease={environment} />),
  column('Action', {}, (environment) => (
    <>
      <span
        className={`${classes['action'] ?? ''} mono ${tone(environment)}`}
        dir="auto"
        title={environment.action ?? ''}
      >
        <VisibleText>{environment.action ?? '–'}</VisibleText>
      </span>
      {isTaken(environment) ? (
        <Under upTo="sm">
          <HolderCell lease={environment} />
        </Under>
      ) : null}
    </>
  )),
  column('Since', { sort: 'grantedAt', from: 'sm' }, (environment) => {
    const at = isTaken(environment) ? environment.grantedAt : endedAt(environment);
    return at === null ? '–' : <RelativeTime at={at} asOf={environment.asOf} />;
  }),
  column('Remaining', { sort: 'expiresAt', from: 'md' }, (environment) => (
    <Remaining {...environment} />
  )),
  column('Comment', { from: 'lg', isFilling: true }, (environment) => (
    <CommentCell lease={environment} />
  )),
];

/** A lease or an environment as it comes over the wire. */
type LeaseItem = Outputs['leases']['list']['items'][number];

/** Whether the lease is held; if not, its row shows the last holder. */
function isTaken({ phase }: Pick<LeaseItem, 'phase'>): boolean {
  return phase === 'held' || phase === 'expiring';
}

/** When a grant that is over ended; null if it was ended by force: only its events show that. */
function endedAt({ endReason, releasedAt, expiresAt }: LeaseItem): string | null {
  return releasedAt ?? (endReason === 'expired' ? expiresAt : null);
}
