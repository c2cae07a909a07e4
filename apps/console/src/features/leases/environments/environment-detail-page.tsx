'use client';

import { DetailTabs } from '~/ui/page/detail-tabs.tsx';
import { Panel } from '~/ui/page/panel.tsx';
import type { ResourceRef } from '~/lib/routes.ts';
import { EventsPanel, JsonView } from '~/resources/detail/lazy-panels.tsx';
import { DetailFrame } from '../detail-frame.tsx';
import { LeaseFacts } from '../lease-facts.tsx';
import { isTaken, type LeaseItem } from '../lease-item.ts';
import { Metadata } from '../metadata.tsx';
import { UseHistory } from './use-history.tsx';

/** One environment: who uses it and what for, or who used it last; and all earlier uses. */
export function EnvironmentDetailPage({ resource }: { readonly resource: ResourceRef }) {
  return (
    <DetailFrame
      key={`${resource.datacenter ?? ''} ${resource.namespace}/${resource.name}`}
      face="environment"
      resource={resource}
      facts={(environment) => (
        <Panel title={isTaken(environment) ? 'In use' : 'Last use'}>
          <LeaseFacts face="environment" lease={environment} />
        </Panel>
      )}
    >
      {(environment) => <EnvironmentTabs environment={environment} />}
    </DetailFrame>
  );
}

function EnvironmentTabs({ environment }: { readonly environment: LeaseItem }) {
  const about = { resource: environment, asOf: environment.asOf } as const;
  return (
    <DetailTabs
      label="About this environment"
      tabs={[
        { value: 'history', label: 'History', panel: <UseHistory {...about} /> },
        { value: 'events', label: 'Events', panel: <EventsPanel face="environment" {...about} /> },
        { value: 'metadata', label: 'Metadata', panel: <Metadata of={environment} /> },
        {
          value: 'raw',
          label: 'Raw',
          panel: <JsonView value={environment} label={`${environment.name} as JSON`} />,
        },
      ]}
    />
  );
}
