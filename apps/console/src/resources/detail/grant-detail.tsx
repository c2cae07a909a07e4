import { Skeleton } from '@mantine/core';
import dynamic from 'next/dynamic';
import type { ReactNode } from 'react';
import { count } from '~/lib/format.ts';
import { at } from '~/lib/here.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { type ResourceRef, routes } from '~/lib/routes.ts';
import { GrantActions } from '~/resources/actions/grant-actions.tsx';
import { type GrantFace, GROUP_OF } from '~/resources/grant-view.ts';
import { DeadlineLadder } from '~/resources/ladder/deadline-ladder.tsx';
import { PhaseBadge } from '~/resources/looks.tsx';
import { GrantTimeline } from '~/resources/timeline/grant-timeline.tsx';
import { MOMENT_PARAM } from '~/resources/timeline/moment/use-moment.ts';
import { DetailPage, DetailTabs } from '~/ui/detail-page.tsx';
import { Panel } from '~/ui/page.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { VisibleText } from '~/ui/text.tsx';
import type { DetailItem } from './detail-item.ts';
import { GrantFacts } from './grant-facts.tsx';
import { LastRefusal } from './last-refusal.tsx';
import { EventsPanel, JsonView } from './lazy-panels.tsx';
import { WayBack } from './way-back.tsx';
import classes from './grant-detail.module.css';

// What a first visit does not show is loaded with its tab.
const WaitersPanel = dynamic(() =>
  import('./waiters-panel.tsx').then((module) => module.WaitersPanel),
);

const MomentPanel = dynamic(
  () => import('~/resources/timeline/moment/moment-panel.tsx').then((module) => module.MomentPanel),
  {
    ssr: false,
    loading: () => <Skeleton className={classes['moment'] ?? ''} aria-busy="true" />,
  },
);

/** Renewals have no events, so what is shown is read this often. */
const EVERY_MS = 1_500;

const LISTS = {
  key: { label: 'Keys', list: routes.keys },
  lease: { label: 'Leases', list: routes.leases },
  environment: { label: 'Environments', list: routes.environments },
} as const;

interface GrantDetailProps {
  readonly face: GrantFace;
  readonly resource: ResourceRef;
  /** What is said of one that does not exist. */
  readonly missing: ReactNode;
  /** What runs for it, as a panel beside the holder. */
  readonly backend?: (item: DetailItem) => ReactNode;
  /** What that writes, as a tab. */
  readonly log?: (item: DetailItem) => ReactNode;
}

/**
 * The page of one key, lease or environment: its deadlines, who holds it and why, what runs for it, what it
 * went through, and what can be done.
 */
export function GrantDetail(props: GrantDetailProps) {
  const { datacenter = '', namespace, name } = props.resource;
  return <DetailOfOne key={`${datacenter} ${namespace}/${name}`} {...props} />;
}

function DetailOfOne({ face, resource, missing, backend, log }: GrantDetailProps) {
  const { namespace, name, datacenter } = resource;
  const input = { namespace, name, ...at(datacenter) };
  const read = useLiveQuery(GROUP_OF[face], 'get', input, { everyMs: EVERY_MS });
  return (
    <DetailPage<DetailItem>
      title={name === '' ? LISTS[face].label : <VisibleText>{name}</VisibleText>}
      eyebrow={<WayBack {...LISTS[face]} namespace={namespace} />}
      what={`the ${face}`}
      read={read}
      missing={missing}
      meta={({ phase }) => <PhaseBadge phase={phase} />}
      asOf={({ asOf }) => asOf}
      actions={(item) => <GrantActions face={face} grant={item} />}
    >
      {(item) => (
        <>
          <div className={classes['columns']}>
            <Panel title="Deadlines">
              <DeadlineLadder face={face} grant={item} />
            </Panel>
            <Panel title="Holder">
              <GrantFacts face={face} item={item} />
              <LastRefusal face={face} resource={item} since={item.grantedAt} />
            </Panel>
            {backend?.(item)}
          </div>
          <GrantTabs face={face} item={item} log={log?.(item)} />
        </>
      )}
    </DetailPage>
  );
}

function GrantTabs({
  face,
  item,
  log,
}: {
  readonly face: GrantFace;
  readonly item: DetailItem;
  readonly log: ReactNode;
}) {
  const about = { resource: item, asOf: item.asOf };
  const waiting = item.waiters === 0 ? 'Waiting' : `Waiting (${count(item.waiters)})`;
  const grants = (
    <>
      <MomentPanel face={face} {...about} />
      <GrantTimeline face={face} {...about} />
    </>
  );
  return (
    <DetailTabs
      label={`About this ${face}`}
      others={[MOMENT_PARAM]}
      tabs={[
        { value: 'grants', label: 'Grants', panel: grants },
        ...(log === undefined ? [] : [{ value: 'log', label: 'Log', panel: log }]),
        // Callers of an environment do not wait in line.
        ...(face === 'environment'
          ? []
          : [
              {
                value: 'waiters',
                label: waiting,
                panel: <WaitersPanel face={face} {...about} />,
              },
            ]),
        { value: 'events', label: 'Events', panel: <EventsPanel face={face} {...about} /> },
        // Holders of keys attach none.
        ...(face === 'key'
          ? []
          : [{ value: 'metadata', label: 'Metadata', panel: <Metadata of={item} /> }]),
        {
          value: 'raw',
          label: 'Raw',
          panel: <JsonView value={item} label={`The ${face} as JSON`} />,
        },
      ]}
    />
  );
}

/** What the holder attached. */
function Metadata({ of: { name, metadata } }: { readonly of: DetailItem }) {
  return metadata === null || metadata === undefined ? (
    <EmptyState title="No metadata">The holder attached none.</EmptyState>
  ) : (
    <JsonView value={metadata} label={`Metadata of ${name}`} />
  );
}
