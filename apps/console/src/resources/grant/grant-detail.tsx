import { Skeleton } from '@mantine/core';
import { IconHandStop, IconLock, IconLockOpen } from '@tabler/icons-react';
import dynamic from 'next/dynamic';
import { type ReactNode, useState } from 'react';
import type { Outputs } from '~/lib/api/api.ts';
import { count, duration } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { at, type ResourceRef, routes } from '~/lib/routes.ts';
import { fieldText } from '~/lib/search.ts';
import { useWhyNot } from '~/lib/session.tsx';
import {
  type GrantFace,
  type GrantView,
  GROUP_OF,
  holdersToken,
  isInForce,
  isOneOfSeveral,
  whyEnded,
  whyNotActable,
} from '~/resources/grant-view.ts';
import { PhaseBadge } from '~/resources/looks.tsx';
import { DetailPage, DetailTabs, WayBack } from '~/ui/detail-page.tsx';
import { lazyDialog } from '~/ui/lazy.tsx';
import { Facts, Panel } from '~/ui/page.tsx';
import { type PageAct, usePageActs } from '~/ui/shell/palette-store.ts';
import { EmptyState } from '~/ui/states.tsx';
import { CopyableId, Link, Mono, RelativeTime, VisibleText } from '~/ui/text.tsx';
import { GuardedButton } from '~/ui/tip.tsx';
import { DeadlineLadder } from './deadline-ladder.tsx';
import { GrantTimeline, MOMENT_PARAM } from './grant-timeline.tsx';
import type { HeldBySeveral } from './grants-of-events.ts';
import classes from './grant-detail.module.css';

const BlockDialog = lazyDialog('isOpen', () =>
  import('~/resources/actions/grant-dialogs.tsx').then((module) => module.BlockDialog),
);

const RevokeDialog = lazyDialog('isOpen', () =>
  import('~/resources/actions/grant-dialogs.tsx').then((module) => module.RevokeDialog),
);

/** Why the page's buttons do not act on a grant: of several holders, each has its own button. */
function whyNotOne(grant: GrantView): string | undefined {
  return isOneOfSeveral(grant)
    ? 'Several may hold it: choose one of its holders below.'
    : undefined;
}

/** What can be done about a grant; disabled with the reason where it cannot. */
function GrantActions({ face, grant }: { readonly face: GrantFace; readonly grant: GrantView }) {
  const [open, setOpen] = useState<'revoke' | 'block' | null>(null);
  const roleWhyNot = useWhyNot('operator');
  const whyNot = roleWhyNot ?? whyNotActable(face, grant) ?? whyNotOne(grant);
  const close = (): void => setOpen(null);
  const BlockIcon = grant.renewable ? IconLock : IconLockOpen;
  const blockLabel = grant.renewable ? 'Block renewal' : 'Allow renewal';
  const block: PageAct = {
    label: `${blockLabel} of ${grant.name}`,
    icon: BlockIcon,
    whyNot,
    run: () => setOpen('block'),
  };
  usePageActs([
    { label: `Revoke ${grant.name}`, icon: IconHandStop, whyNot, run: () => setOpen('revoke') },
    ...(face === 'environment' ? [] : [block]),
  ]);
  return (
    <>
      {face === 'environment' ? null : (
        <GuardedButton
          variant="default"
          whyNot={whyNot}
          leftSection={<BlockIcon size={14} />}
          onClick={block.run}
        >
          {blockLabel}
        </GuardedButton>
      )}
      <GuardedButton
        color="red.8"
        whyNot={whyNot}
        leftSection={<IconHandStop size={14} />}
        onClick={() => setOpen('revoke')}
      >
        Revoke
      </GuardedButton>
      <RevokeDialog face={face} grant={grant} isOpen={open === 'revoke'} onClose={close} />
      {face === 'environment' ? null : (
        <BlockDialog face={face} grant={grant} isOpen={open === 'block'} onClose={close} />
      )}
    </>
  );
}

// What a first visit does not show is loaded with its tab.
const QueuePanel = dynamic(() => import('./grant-panels.tsx').then((module) => module.QueuePanel));
const WaitersPanel = dynamic(() =>
  import('./grant-panels.tsx').then((module) => module.WaitersPanel),
);

const WhyPanel = dynamic(() =>
  import('~/resources/contention.tsx').then((module) => module.WhyPanel),
);

const MomentPanel = dynamic(
  () => import('./moment-panel.tsx').then((module) => module.MomentPanel),
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
  /** What only leases or environments have, as a panel. */
  readonly more?: (item: LeaseDetail) => ReactNode;
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

function DetailOfOne({ face, resource, missing, backend, more, log }: GrantDetailProps) {
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
            {isEmptyPool(item) ? (
              <Panel title="Holder">
                <p>Nobody holds it. Several may at once.</p>
                <LastRefusal face={face} resource={item} since={item.grantedAt} />
              </Panel>
            ) : (
              <>
                <Panel title="Deadlines">
                  <DeadlineLadder face={face} grant={item} />
                </Panel>
                <Panel title="Holder">
                  <GrantFacts face={face} item={item} />
                  <LastRefusal face={face} resource={item} since={item.grantedAt} />
                </Panel>
              </>
            )}
            {backend?.(item)}
          </div>
          {'pool' in item ? more?.(item) : null}
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
      <GrantTimeline face={face} {...about} held={heldBySeveral(item)} />
    </>
  );
  return (
    <DetailTabs
      label={`About this ${face}`}
      others={[MOMENT_PARAM]}
      tabs={[
        { value: 'grants', label: 'Grants', panel: grants },
        ...(log === undefined ? [] : [{ value: 'log', label: 'Log', panel: log }]),
        {
          value: 'waiters',
          label: waiting,
          panel:
            face === 'environment' ? (
              <QueuePanel resource={item} />
            ) : (
              <WaitersPanel face={face} {...about} />
            ),
        },
        ...(face === 'key'
          ? []
          : [{ value: 'why', label: 'Why', panel: <WhyPanel face={face} resource={item} /> }]),
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

/** Of what several may hold at once: the grants that last. */
function heldBySeveral(item: DetailItem): HeldBySeveral | undefined {
  if (!('pool' in item) || item.pool === null) return undefined;
  const { holders, used } = item.pool;
  const isWhole = used <= holders.length;
  return { leaseIds: holders.map(({ leaseId }) => leaseId), isWhole, asOf: item.asOf };
}

/** Of what several may hold at once, and nobody holds: it shows no grant. */
function isEmptyPool(item: DetailItem): boolean {
  return 'pool' in item && item.pool?.used === 0;
}

/** What the holder attached. */
function Metadata({ of: { name, metadata } }: { readonly of: DetailItem }) {
  return metadata === null || metadata === undefined ? (
    <EmptyState title="No metadata">The holder attached none.</EmptyState>
  ) : (
    <JsonView value={metadata} label={`Metadata of ${name}`} />
  );
}

/**
 * Who holds it, since when, with which token and why; of an environment also for what. For what is free, the
 * last holder, and how its grant ended.
 */
function GrantFacts({ face, item }: { readonly face: GrantFace; readonly item: DetailItem }) {
  const { grantedAt, renewedAt, releasedAt, stopsBy, endReason, asOf } = item;
  const isHeld = isInForce(item);
  const { action, comment, ttlMs } = 'ttlMs' in item ? item : NOTHING_SAID;
  const tag = 'tag' in item ? item.tag : '';
  return (
    <Facts
      isFirstWide
      items={{
        [isHeld ? 'Held by' : 'Last held by']: <Holder face={face} item={item} />,
        For: action === null ? null : <Mono>{action}</Mono>,
        Comment: comment === null ? null : <VisibleText>{comment}</VisibleText>,
        'Fencing token': <CopyableId id={holdersToken(item)} label="fencing token" />,
        Granted: <RelativeTime at={grantedAt} asOf={asOf} />,
        Renewed: <RelativeTime at={renewedAt} asOf={asOf} />,
        Released: releasedAt === null ? null : <RelativeTime at={releasedAt} asOf={asOf} />,
        Expired: endReason === 'expired' ? <RelativeTime at={item.expiresAt} asOf={asOf} /> : null,
        'Held back until': stopsBy === null ? null : <RelativeTime at={stopsBy} asOf={asOf} />,
        'Ended because': isHeld ? null : <WhyEnded item={item} />,
        Tag: tag === '' ? null : <Mono>{tag}</Mono>,
        TTL: ttlMs === null ? null : duration(ttlMs),
        Datacenter: <Home face={face} item={item} />,
        'Lease id': <CopyableId id={item.leaseId} label="lease id" isShort />,
      }}
    />
  );
}

function WhyEnded({ item }: { readonly item: DetailItem }) {
  const hasFailed = 'backendEnd' in item && item.backendEnd?.hasFailed === true;
  return <span data-bad={hasFailed || undefined}>{whyEnded(item)}</span>;
}

const NOTHING_SAID = { action: null, comment: null, ttlMs: null };

interface Of {
  readonly face: GrantFace;
  readonly item: DetailItem;
}

/** A key is held by a drone, which has a page; of other holders there is a list of what they hold. */
function Holder({ face, item }: Of): ReactNode {
  const { holder, datacenter } = item;
  if ('droneId' in item) {
    return item.droneId === null ? (
      <Mono>{holder}</Mono>
    ) : (
      <Link href={routes.drone(item.droneId, datacenter)}>
        <Mono>{item.droneId}</Mono>
      </Link>
    );
  }
  const list = face === 'environment' ? routes.environments : routes.leases;
  return (
    <>
      <Link href={list({ q: fieldText('holder', holder) })}>
        <Mono>{holder}</Mono>
      </Link>
      {item.pool !== null && item.pool.used > 1 ? ` and ${count(item.pool.used - 1)} more` : ''}
    </>
  );
}

/** Only keys move between datacenters. */
function Home({ face, item: { namespace, name, datacenter } }: Of): ReactNode {
  if (face !== 'key') return <Mono>{datacenter}</Mono>;
  return (
    <Link
      href={routes.reservation([namespace, name])}
      title="Where the key lives and has lived"
      className="mono"
    >
      {datacenter}
    </Link>
  );
}

const DAY_MINUTES = 24 * 60;
const REFUSALS_EVERY_MS = 5_000;

/** Who was refused it last, when and why, of the last day and since an instant; nothing without a refusal. */
export function LastRefusal({
  face,
  resource: { namespace, name, datacenter },
  since,
}: {
  readonly face: GrantFace;
  readonly resource: ResourceRef;
  /** Since its last grant: an earlier refusal explains nothing. */
  readonly since?: string;
}) {
  const input = { face, namespace, name, ...at(datacenter), limit: 1, windowMinutes: DAY_MINUTES };
  const { data } = useLiveQuery('refusals', 'list', input, { everyMs: REFUSALS_EVERY_MS });
  const [last] = data?.items ?? [];
  if (last === undefined || (since !== undefined && last.lastAt < since)) return null;
  return (
    <p className="small-print" role="status">
      {face === 'key' ? 'The last connect was refused ' : 'It was refused last '}
      <RelativeTime at={last.lastAt} {...(data === undefined ? {} : { asOf: data.asOf })} />
      {`, to `}
      <VisibleText>{last.holder ?? last.actor}</VisibleText>
      {': '}
      <VisibleText>{last.reason}</VisibleText> <Mono>{last.code}</Mono>{' '}
      <Link href={routes.refusals({ face, q: searchOf(namespace, name) })}>
        {last.count === 1 ? 'Refusals' : `${count(last.count)} refusals in this hour`}
      </Link>
    </p>
  );
}

/** The search that finds the refusals of one resource. */
function searchOf(namespace: string, name: string): string {
  return namespace === '' ? `"${name}"` : `${fieldText('namespace', namespace)} "${name}"`;
}

/** A key, a lease or an environment as it comes over the wire. */
type DetailItem =
  (NonNullable<Outputs['keys']['get']> & { readonly metadata?: undefined }) | LeaseDetail;

type LeaseDetail = NonNullable<Outputs['leases']['get']>;

/** What a first visit does not show is loaded with its tab. */
const JsonView = dynamic(() => import('~/ui/page.tsx').then((module) => module.JsonView));
const EventsPanel = dynamic(() =>
  import('./grant-panels.tsx').then((module) => module.EventsPanel),
);
