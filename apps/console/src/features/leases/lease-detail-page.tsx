'use client';

import dynamic from 'next/dynamic';
import { DetailTabs } from '~/ui/page/detail-tabs.tsx';
import { Panel } from '~/ui/page/panel.tsx';
import { count } from '~/lib/format.ts';
import type { ResourceRef } from '~/lib/routes.ts';
import { EventsPanel, JsonView } from '~/resources/detail/lazy-panels.tsx';
import { WaitersPanel } from '~/resources/detail/waiters-panel.tsx';
import { DetailFrame } from './detail-frame.tsx';
import { LeaseFacts } from './lease-facts.tsx';
import type { LeaseItem } from './lease-item.ts';
import { Metadata } from './metadata.tsx';

// What a first visit does not show is loaded with its tab.
const GrantTimeline = dynamic(() =>
  import('~/resources/timeline/grant-timeline.tsx').then((module) => module.GrantTimeline),
);

/** One lease: who holds it and why, until when, who waits for it, and who had it before. */
export function LeaseDetailPage({ resource }: { readonly resource: ResourceRef }) {
  return (
    <DetailFrame
      key={`${resource.datacenter ?? ''} ${resource.namespace}/${resource.name}`}
      face="lease"
      resource={resource}
      facts={(lease) => (
        <Panel title="Holder">
          <LeaseFacts face="lease" lease={lease} />
        </Panel>
      )}
    >
      {(lease) => <LeaseTabs lease={lease} />}
    </DetailFrame>
  );
}

function LeaseTabs({ lease }: { readonly lease: LeaseItem }) {
  const about = { resource: lease, asOf: lease.asOf } as const;
  return (
    <DetailTabs
      label="About this lease"
      tabs={[
        {
          value: 'waiters',
          label: lease.waiters === 0 ? 'Waiting' : `Waiting (${count(lease.waiters)})`,
          panel: <WaitersPanel face="lease" {...about} />,
        },
        { value: 'history', label: 'History', panel: <GrantTimeline face="lease" {...about} /> },
        { value: 'events', label: 'Events', panel: <EventsPanel face="lease" {...about} /> },
        { value: 'metadata', label: 'Metadata', panel: <Metadata of={lease} /> },
        {
          value: 'raw',
          label: 'Raw',
          panel: <JsonView value={lease} label={`${lease.name} as JSON`} />,
        },
      ]}
    />
  );
}
