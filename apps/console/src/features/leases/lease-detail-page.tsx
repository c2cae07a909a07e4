'use client';

import { VisibleText } from '~/ui/text/visible-text.tsx';
import dynamic from 'next/dynamic';
import { at } from '~/lib/datacenters/here.ts';
import { count } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routes, type ResourceRef } from '~/lib/routes.ts';
import { GrantActions } from '~/resources/actions/grant-actions.tsx';
import { EventsPanel, JsonView } from '~/resources/detail/lazy-panels.tsx';
import { WaitersPanel } from '~/resources/detail/waiters-panel.tsx';
import { WayBack } from '~/resources/detail/way-back.tsx';
import { GROUP_OF } from '~/resources/grant-view.ts';
import { DeadlineLadder } from '~/resources/ladder/deadline-ladder.tsx';
import { PhaseBadge } from '~/resources/looks.tsx';
import { DetailPage } from '~/ui/page/detail-page.tsx';
import { DetailTabs } from '~/ui/page/detail-tabs.tsx';
import { Panel } from '~/ui/page/panel.tsx';
import { EmptyState } from '~/ui/states/states.tsx';
import { UseHistory } from './environments/use-history.tsx';
import { LeaseFacts } from './lease-facts.tsx';
import { isTaken, type LeaseItem } from './lease-item.ts';

// What a first visit does not show is loaded with its tab.
const GrantTimeline = dynamic(() =>
  import('~/resources/timeline/grant-timeline.tsx').then((module) => module.GrantTimeline),
);

/** Renewals make no events. */
const EVERY_MS = 2_000;

/** The list that each face belongs to. */
const LISTS = {
  lease: { label: 'Leases', list: routes.leases },
  environment: { label: 'Environments', list: routes.environments },
} as const;

interface LeaseDetailProps {
  readonly face: 'lease' | 'environment';
  readonly resource: ResourceRef;
}

/** One lease or environment: who has it and why, until when, who waits for it, and who had it before. */
export function LeaseDetailPage(props: LeaseDetailProps) {
  const { datacenter = '', namespace, name } = props.resource;
  return <LeaseDetail key={`${datacenter} ${namespace}/${name}`} {...props} />;
}

function LeaseDetail({ face, resource: { namespace, name, datacenter } }: LeaseDetailProps) {
  const input = { namespace, name, ...at(datacenter) };
  const read = useLiveQuery(GROUP_OF[face], 'get', input, { everyMs: EVERY_MS });
  const Details = face === 'lease' ? LeaseTabs : EnvironmentTabs;
  return (
    <DetailPage
      title={<VisibleText>{name}</VisibleText>}
      eyebrow={<WayBack {...LISTS[face]} namespace={namespace} />}
      what={`the ${face}`}
      read={read}
      missing={
        <EmptyState title={`No such ${face}`}>
          Nobody has acquired {face === 'lease' ? 'a lease' : 'an environment'} of this name, or it
          is in a namespace that you may not see.
        </EmptyState>
      }
      meta={({ phase }) => <PhaseBadge phase={phase} />}
      asOf={({ asOf }) => asOf}
      actions={(lease) => <GrantActions face={face} grant={lease} />}
    >
      {(lease) => (
        <>
          <Panel title={face === 'lease' ? 'Holder' : isTaken(lease) ? 'In use' : 'Last use'}>
            <LeaseFacts face={face} lease={lease} />
          </Panel>
          <Panel title="Deadlines">
            <DeadlineLadder face={face} grant={lease} />
          </Panel>
          <Details lease={lease} />
        </>
      )}
    </DetailPage>
  );
}

function LeaseTabs({ lease }: { readonly lease: LeaseItem }) {
  const about = { face: 'lease', resource: lease, asOf: lease.asOf } as const;
  return (
    <DetailTabs
      label="About this lease"
      tabs={[
        {
          value: 'waiters',
          label: lease.waiters === 0 ? 'Waiting' : `Waiting (${count(lease.waiters)})`,
          panel: <WaitersPanel {...about} />,
        },
        { value: 'history', label: 'History', panel: <GrantTimeline {...about} /> },
        { value: 'events', label: 'Events', panel: <EventsPanel {...about} /> },
        ...contentTabs(lease),
      ]}
    />
  );
}

function EnvironmentTabs({ lease }: { readonly lease: LeaseItem }) {
  const about = { resource: lease, asOf: lease.asOf };
  return (
    <DetailTabs
      label="About this environment"
      tabs={[
        { value: 'history', label: 'History', panel: <UseHistory {...about} /> },
        { value: 'events', label: 'Events', panel: <EventsPanel face="environment" {...about} /> },
        ...contentTabs(lease),
      ]}
    />
  );
}

/** What the holder attached to it, and all of it as the API gives it. */
function contentTabs(lease: LeaseItem) {
  const { name, metadata } = lease;
  const attached =
    metadata === null || metadata === undefined ? (
      <EmptyState title="No metadata">The holder attached none.</EmptyState>
    ) : (
      <JsonView value={metadata} label={`Metadata of ${name}`} />
    );
  return [
    { value: 'metadata', label: 'Metadata', panel: attached },
    { value: 'raw', label: 'Raw', panel: <JsonView value={lease} label={`${name} as JSON`} /> },
  ];
}
