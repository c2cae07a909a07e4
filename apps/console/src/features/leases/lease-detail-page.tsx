'use client';

import { Tabs } from '@mantine/core';
import dynamic from 'next/dynamic';
import { Panel } from '~/ui/page/panel.tsx';
import { EmptyState } from '~/ui/states/empty-state.tsx';
import { count } from '~/lib/format.ts';
import { routes, type ResourceRef } from '~/lib/routes.ts';
import { WaitersPanel } from '~/resources/detail/waiters-panel.tsx';
import { DetailFrame } from './detail-frame.tsx';
import { LeaseFacts } from './lease-facts.tsx';
import type { LeaseItem } from './lease-item.ts';
import { useTab } from '~/resources/detail/use-tab.ts';

// What no first visit shows is loaded with its tab.
const JsonView = dynamic(() => import('~/ui/page/json-view.tsx').then((module) => module.JsonView));
const EventsPanel = dynamic(() =>
  import('~/resources/timeline/events-panel.tsx').then((module) => module.EventsPanel),
);
const GrantTimeline = dynamic(() =>
  import('~/resources/timeline/grant-timeline.tsx').then((module) => module.GrantTimeline),
);

const TABS = ['waiters', 'history', 'events', 'metadata', 'raw'] as const;

/** One lease: who holds it and why, until when, who waits for it, and who had it before. */
export function LeaseDetailPage({ resource }: { readonly resource: ResourceRef }) {
  return (
    <DetailFrame
      key={`${resource.datacenter ?? ''} ${resource.namespace}/${resource.name}`}
      face="lease"
      resource={resource}
      list={{ label: 'Leases', href: routes.leases() }}
      facts={(lease) => (
        <Panel title="Holder">
          <LeaseFacts lease={lease} />
        </Panel>
      )}
    >
      {(lease) => <LeaseTabs lease={lease} />}
    </DetailFrame>
  );
}

function LeaseTabs({ lease }: { readonly lease: LeaseItem }) {
  const [tab, setTab] = useTab(TABS);
  const about = { resource: lease, asOf: lease.asOf } as const;
  return (
    <Tabs value={tab} keepMounted={false} onChange={setTab}>
      <Tabs.List mb="sm" aria-label="About this lease">
        <Tabs.Tab value="waiters">
          Waiting{lease.waiters === 0 ? '' : ` (${count(lease.waiters)})`}
        </Tabs.Tab>
        <Tabs.Tab value="history">History</Tabs.Tab>
        <Tabs.Tab value="events">Events</Tabs.Tab>
        <Tabs.Tab value="metadata">Metadata</Tabs.Tab>
        <Tabs.Tab value="raw">Raw</Tabs.Tab>
      </Tabs.List>
      <Tabs.Panel value="waiters">
        <WaitersPanel face="lease" {...about} />
      </Tabs.Panel>
      <Tabs.Panel value="history">
        <GrantTimeline face="lease" {...about} />
      </Tabs.Panel>
      <Tabs.Panel value="events">
        <EventsPanel face="lease" {...about} />
      </Tabs.Panel>
      <Tabs.Panel value="metadata">
        <Metadata of={lease} />
      </Tabs.Panel>
      <Tabs.Panel value="raw">
        <JsonView value={lease} label={`${lease.name} as JSON`} />
      </Tabs.Panel>
    </Tabs>
  );
}

/** What its holder attached to it. */
export function Metadata({ of: { name, metadata } }: { readonly of: LeaseItem }) {
  return metadata === null || metadata === undefined ? (
    <EmptyState title="No metadata">Its holder attached none.</EmptyState>
  ) : (
    <JsonView value={metadata} label={`Metadata of ${name}`} />
  );
}
