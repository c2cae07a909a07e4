'use client';

import { Tabs } from '@mantine/core';
import dynamic from 'next/dynamic';
import { Link } from '~/ui/link.tsx';
import { parseAsString, useQueryStates } from 'nuqs';
import { DetailPage, WayBack } from '~/ui/page/detail-page.tsx';
import { Panel } from '~/ui/page/panel.tsx';
import { EmptyState } from '~/ui/states/empty-state.tsx';
import { PhaseBadge } from '~/resources/looks.tsx';
import { DeadlineLadder } from '~/resources/ladder/deadline-ladder.tsx';
import { GrantActions } from '~/resources/actions/grant-actions.tsx';
import { GrantTimeline } from '~/resources/timeline/grant-timeline.tsx';
import { count, fullName } from '~/lib/format.ts';
import { at } from '~/lib/datacenters/here.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routes, type ResourceRef } from '~/lib/routes.ts';
import { fieldText } from '~/lib/search/search-text.ts';
import { useTab } from '~/resources/detail/use-tab.ts';
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
  const { namespace, name } = resource;
  const read = useLiveQuery('keys', 'get', { ...resource }, { everyMs: EVERY_MS });
  return (
    <DetailPage
      title={<bdi>{name === '' ? 'Key' : name}</bdi>}
      eyebrow={
        <WayBack
          label="Keys"
          href={routes.keys()}
          namespace={namespace}
          namespaceHref={routes.keys({ q: fieldText('namespace', namespace) })}
        />
      }
      what="the key"
      read={read}
      missing={<NoKey resource={resource} />}
      meta={({ phase }) => <PhaseBadge phase={phase} />}
      asOf={({ asOf }) => asOf}
      actions={(key) => <GrantActions face="key" grant={key} />}
    >
      {(key) => <KeyBody item={key} />}
    </DetailPage>
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
  const [tab, setTab] = useTab(TABS);
  const about = { resource: item, asOf: item.asOf };
  return (
    <Tabs value={tab} keepMounted={false} onChange={setTab}>
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
