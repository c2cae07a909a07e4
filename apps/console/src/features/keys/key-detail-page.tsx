'use client';

import { Tabs } from '@mantine/core';
import dynamic from 'next/dynamic';
import { Link } from '~/ui/link.tsx';
import { parseAsString, parseAsStringLiteral, useQueryStates } from 'nuqs';
import { PageHeader } from '~/ui/page/page-header.tsx';
import { Panel } from '~/ui/page/panel.tsx';
import { DataAge } from '~/ui/states/data-age.tsx';
import { EmptyState } from '~/ui/states/empty-state.tsx';
import { ErrorState } from '~/ui/states/error-state.tsx';
import { StaleScope } from '~/ui/states/stale-scope.tsx';
import { PhaseBadge } from '~/resources/looks.tsx';
import { DeadlineLadder } from '~/resources/ladder/deadline-ladder.tsx';
import { DetailSkeleton } from '~/resources/detail/detail-skeleton.tsx';
import { GrantActions } from '~/resources/actions/grant-actions.tsx';
import { GrantTimeline } from '~/resources/timeline/grant-timeline.tsx';
import { count, fullName } from '~/lib/format.ts';
import { at } from '~/lib/datacenters/here.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routes, type ResourceRef } from '~/lib/routes.ts';
import { fieldText } from '~/lib/search/search-text.ts';
import { BackendPanel } from './backend-panel.tsx';
import type { KeyItem } from './key-columns.tsx';
import { KeyFacts } from './key-facts.tsx';
import classes from './keys.module.css';

// What no first visit shows is loaded with its tab.
const JsonView = dynamic(() => import('~/ui/page/json-view.tsx').then((module) => module.JsonView));
const EventsPanel = dynamic(() =>
  import('~/resources/timeline/events-panel.tsx').then((module) => module.EventsPanel),
);
const WaitersPanel = dynamic(() =>
  import('~/resources/detail/waiters-panel.tsx').then((module) => module.WaitersPanel),
);

/** Renewals have no events: a key that is looked at is read this often. */
const EVERY_MS = 1_500;

/** Which key, of the address. */
export function KeyDetailPage() {
  const [{ namespace, name, datacenter }] = useQueryStates({
    namespace: parseAsString.withDefault(''),
    name: parseAsString.withDefault(''),
    datacenter: parseAsString.withDefault(''),
  });
  return (
    <KeyDetail
      key={`${datacenter} ${namespace}/${name}`}
      resource={{ namespace, name, ...at(datacenter) }}
    />
  );
}

/** One key: who holds it and why, its deadlines, its past, and what can be done. */
function KeyDetail({ resource }: { readonly resource: ResourceRef }) {
  const read = useLiveQuery('keys', 'get', { ...resource }, { everyMs: EVERY_MS });
  const key = read.data ?? undefined;
  const isRead = read.data !== undefined;
  return (
    <>
      <PageHeader
        eyebrow={<Eyebrow namespace={resource.namespace} />}
        title={<bdi>{resource.name === '' ? 'Key' : resource.name}</bdi>}
        meta={
          key && (
            <>
              <PhaseBadge phase={key.phase} />
              <DataAge read={read} asOf={key.asOf} />
            </>
          )
        }
        actions={key && <GrantActions face="key" grant={key} />}
      />
      {!isRead && read.isError ? (
        <ErrorState error={read.error} what="the key" onRetry={() => void read.refetch()} />
      ) : null}
      {!isRead && !read.isError ? <DetailSkeleton /> : null}
      {read.data === null ? <NoKey resource={resource} /> : null}
      {key === undefined ? null : (
        <StaleScope read={read}>
          <KeyBody item={key} />
        </StaleScope>
      )}
    </>
  );
}

function KeyBody({ item }: { readonly item: KeyItem }) {
  return (
    <>
      <div className={classes['columns']}>
        <Panel title="Deadlines">
          <DeadlineLadder face="key" grant={item} />
        </Panel>
        <Panel title="Holder">
          <KeyFacts item={item} />
        </Panel>
        {item.backendId === null ? null : (
          <BackendPanel backendId={item.backendId} datacenter={item.datacenter} />
        )}
      </div>
      <KeyTabs item={item} />
    </>
  );
}

function Eyebrow({ namespace }: { readonly namespace: string }) {
  return (
    <>
      <Link href={routes.keys()}>Keys</Link>
      {namespace === '' ? null : (
        <>
          {' / '}
          <Link href={routes.keys({ q: fieldText('namespace', namespace) })}>
            <bdi>{namespace}</bdi>
          </Link>
        </>
      )}
    </>
  );
}

function NoKey({ resource }: { readonly resource: ResourceRef }) {
  return (
    <EmptyState title="No such key">
      Nobody has asked for <span className="mono">{fullName(resource)}</span>, or it was forgotten
      since. It is there as soon as somebody connects to it.{' '}
      <Link href={routes.reservation([resource.namespace, resource.name])}>Where it lives</Link>
    </EmptyState>
  );
}

const TABS = ['history', 'waiters', 'events', 'raw'] as const;

function KeyTabs({ item }: { readonly item: KeyItem }) {
  // The place in a list belongs to its tab.
  const [{ tab }, setState] = useQueryStates(
    {
      tab: parseAsStringLiteral(TABS).withDefault('history'),
      after: parseAsString,
    },
    { history: 'push' },
  );
  const about = { resource: item, asOf: item.asOf };
  return (
    <Tabs
      value={tab}
      keepMounted={false}
      onChange={(next) =>
        void setState({ tab: TABS.find((known) => known === next) ?? null, after: null })
      }
    >
      <Tabs.List mb="sm" aria-label="About this key">
        <Tabs.Tab value="history">Grants</Tabs.Tab>
        <Tabs.Tab value="waiters">{`Waiters (${count(item.waiters)})`}</Tabs.Tab>
        <Tabs.Tab value="events">Events</Tabs.Tab>
        <Tabs.Tab value="raw">Raw</Tabs.Tab>
      </Tabs.List>
      <Tabs.Panel value="history">
        <GrantTimeline face="key" {...about} />
      </Tabs.Panel>
      <Tabs.Panel value="waiters">
        <WaitersPanel face="key" {...about} />
      </Tabs.Panel>
      <Tabs.Panel value="events">
        <EventsPanel face="key" {...about} />
      </Tabs.Panel>
      <Tabs.Panel value="raw">
        <JsonView value={item} label="The key as the API answers it" />
      </Tabs.Panel>
    </Tabs>
  );
}
