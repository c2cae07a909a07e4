'use client';

import dynamic from 'next/dynamic';
import { Link } from '~/ui/link.tsx';
import { parseAsString, useQueryStates } from 'nuqs';
import { DetailPage } from '~/ui/page/detail-page.tsx';
import { DetailTabs } from '~/ui/page/detail-tabs.tsx';
import { Panel } from '~/ui/page/panel.tsx';
import { EmptyState } from '~/ui/states/states.tsx';
import { PhaseBadge } from '~/resources/looks.tsx';
import { DeadlineLadder } from '~/resources/ladder/deadline-ladder.tsx';
import { GrantActions } from '~/resources/actions/grant-actions.tsx';
import { GrantTimeline } from '~/resources/timeline/grant-timeline.tsx';
import { count, fullName } from '~/lib/format.ts';
import { at } from '~/lib/datacenters/here.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routes, type ResourceRef } from '~/lib/routes.ts';
import { EventsPanel, JsonView } from '~/resources/detail/lazy-panels.tsx';
import { WayBack } from '~/resources/detail/way-back.tsx';
import { BackendPanel } from './backend-panel.tsx';
import type { KeyItem } from './key-columns.tsx';
import { Facts } from '~/ui/page/facts.tsx';
import { CopyableId, Mono, RelativeTime } from '~/ui/text/text.tsx';
import { holdersToken, isInForce } from '~/resources/grant-view.ts';
import classes from './keys.module.css';

// What a first visit does not show is loaded with its tab.
const WaitersPanel = dynamic(() =>
  import('~/resources/detail/waiters-panel.tsx').then((module) => module.WaitersPanel),
);

/** Renewals have no events, so a key that is shown is read this often. */
const EVERY_MS = 1_500;

/** The page of the key in the address. */
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
      eyebrow={<WayBack label="Keys" list={routes.keys} namespace={namespace} isSearched />}
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
      Nobody has connected to <span className="mono">{fullName(resource)}</span>, or its record has
      been removed. A key exists once a caller connects to it.{' '}
      <Link href={routes.reservation([resource.namespace, resource.name])}>Show its home</Link>
    </EmptyState>
  );
}

function KeyTabs({ item }: { readonly item: KeyItem }) {
  const about = { resource: item, asOf: item.asOf };
  return (
    <DetailTabs
      label="About this key"
      tabs={[
        { value: 'history', label: 'Grants', panel: <GrantTimeline face="key" {...about} /> },
        {
          value: 'waiters',
          label: `Waiters (${count(item.waiters)})`,
          panel: <WaitersPanel face="key" {...about} />,
        },
        { value: 'events', label: 'Events', panel: <EventsPanel face="key" {...about} /> },
        {
          value: 'raw',
          label: 'Raw',
          panel: <JsonView value={item} label="Key as JSON" />,
        },
      ]}
    />
  );
}

/** Who holds a key, since when and with which token; for a free key, the last holder. */
function KeyFacts({ item }: { readonly item: KeyItem }) {
  const { droneId, holder, grantedAt, renewedAt, releasedAt, stopsBy, asOf } = item;
  const isHeld = isInForce(item);
  const by =
    droneId === null ? (
      <Mono>{holder}</Mono>
    ) : (
      <Link href={routes.drone(droneId, item.datacenter)} className="mono">
        {droneId}
      </Link>
    );
  return (
    <Facts
      items={{
        [isHeld ? 'Held by drone' : 'Last held by']: by,
        'Fencing token': <CopyableId id={holdersToken(item)} label="fencing token" />,
        Granted: <RelativeTime at={grantedAt} asOf={asOf} />,
        Renewed: <RelativeTime at={renewedAt} asOf={asOf} />,
        Released: releasedAt === null ? null : <RelativeTime at={releasedAt} asOf={asOf} />,
        'Held back until': stopsBy === null ? null : <RelativeTime at={stopsBy} asOf={asOf} />,
        'Ended by': isHeld ? null : item.endReason,
        Tag: item.tag === '' ? null : <Mono>{item.tag}</Mono>,
        Datacenter: (
          <Link
            href={routes.reservation([item.namespace, item.name])}
            title="Its home now and before"
            className="mono"
          >
            {item.datacenter}
          </Link>
        ),
        'Lease id': <CopyableId id={item.leaseId} label="lease id" isShort />,
      }}
    />
  );
}
