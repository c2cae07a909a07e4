'use client';

import { Tabs } from '@mantine/core';
import dynamic from 'next/dynamic';
import { Panel } from '~/ui/page/panel.tsx';
import { routes, type ResourceRef } from '~/lib/routes.ts';
import { DetailFrame } from '../detail-frame.tsx';
import { Metadata } from '../lease-detail-page.tsx';
import { isTaken } from '../lease-columns.tsx';
import type { LeaseItem } from '../lease-item.ts';
import { useTab } from '~/resources/detail/use-tab.ts';
import { EnvironmentFacts } from './environment-facts.tsx';
import { UseHistory } from './use-history.tsx';

// What no first visit shows is loaded with its tab.
const JsonView = dynamic(() => import('~/ui/page/json-view.tsx').then((module) => module.JsonView));
const EventsPanel = dynamic(() =>
  import('~/resources/timeline/events-panel.tsx').then((module) => module.EventsPanel),
);

const TABS = ['history', 'events', 'metadata', 'raw'] as const;

/** One environment: who uses it and what for, or who did last; and everybody before. */
export function EnvironmentDetailPage({ resource }: { readonly resource: ResourceRef }) {
  return (
    <DetailFrame
      key={`${resource.datacenter ?? ''} ${resource.namespace}/${resource.name}`}
      face="environment"
      resource={resource}
      list={{ label: 'Environments', href: routes.environments() }}
      facts={(environment) => (
        <Panel title={isTaken(environment) ? 'In use' : 'Last use'}>
          <EnvironmentFacts environment={environment} />
        </Panel>
      )}
    >
      {(environment) => <EnvironmentTabs environment={environment} />}
    </DetailFrame>
  );
}

function EnvironmentTabs({ environment }: { readonly environment: LeaseItem }) {
  const [tab, setTab] = useTab(TABS);
  const about = { resource: environment, asOf: environment.asOf } as const;
  return (
    <Tabs value={tab} keepMounted={false} onChange={setTab}>
      <Tabs.List mb="sm" aria-label="About this environment">
        <Tabs.Tab value="history">History</Tabs.Tab>
        <Tabs.Tab value="events">Events</Tabs.Tab>
        <Tabs.Tab value="metadata">Metadata</Tabs.Tab>
        <Tabs.Tab value="raw">Raw</Tabs.Tab>
      </Tabs.List>
      <Tabs.Panel value="history">
        <UseHistory {...about} />
      </Tabs.Panel>
      <Tabs.Panel value="events">
        <EventsPanel face="environment" {...about} />
      </Tabs.Panel>
      <Tabs.Panel value="metadata">
        <Metadata of={environment} />
      </Tabs.Panel>
      <Tabs.Panel value="raw">
        <JsonView value={environment} label={`${environment.name} as JSON`} />
      </Tabs.Panel>
    </Tabs>
  );
}
