'use client';

import { Skeleton } from '@mantine/core';
import dynamic from 'next/dynamic';
import { resourceText } from '@leasehold/keys-core';
import type { Outputs } from '~/lib/api/api.ts';
import { clockMs } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { at, type ResourceRef, routes } from '~/lib/routes.ts';
import {
  backendLook,
  endLabel,
  endOf,
  endSentence,
  failureLabel,
} from '~/resources/backend-looks.ts';
import { gatewayFacts, idleFacts, OpenInBrowser } from '~/resources/backend-facts.tsx';
import { GrantDetail, LastRefusal } from '~/resources/grant/grant-detail.tsx';
import { Facts, Panel } from '~/ui/page.tsx';
import { StaleScope } from '~/ui/stale.tsx';
import { EmptyState, ErrorState, Notice, UnreachableNotice, useLastWhole } from '~/ui/states.tsx';
import { CopyableId, Link, LookBadge, VisibleText } from '~/ui/text.tsx';
import classes from './keys.module.css';

/** One key: its deadlines, who holds it and what runs for it, its past, and what can be done. */
export function KeyDetailPage({ resource }: { readonly resource: ResourceRef }) {
  return (
    <GrantDetail
      face="key"
      resource={resource}
      missing={<NoKey resource={resource} />}
      backend={(item) => <BackendPanel resource={item} />}
      log={(item) => <BackendLog resource={item} />}
    />
  );
}

function NoKey({ resource }: { readonly resource: ResourceRef }) {
  return (
    <EmptyState title="No such key">
      Nobody has connected to{' '}
      <span className="mono">
        <VisibleText>{resourceText(resource)}</VisibleText>
      </span>
      , or its record has been removed. A key exists once a caller connects to it.{' '}
      <Link href={routes.reservation([resource.namespace, resource.name])}>Show its home</Link>
      <LastRefusal face="key" resource={resource} />
    </EmptyState>
  );
}

// A log is loaded with the part of a page that shows it.
const LogPanel = dynamic(
  () => import('~/resources/log/log-panel.tsx').then((module) => module.LogPanel),
  { ssr: false, loading: () => <Skeleton height={240} aria-busy="true" /> },
);

const EVERY_MS = 1_500;
/** Only the newest states are shown; the backend's own page has all. */
const STATES_MAX = 8;

/** What the panel takes of a backend that is ready, so that nothing below it moves when it is there. */
const PANEL_PX = 216;

interface OfKey {
  readonly resource: {
    readonly namespace: string;
    readonly name: string;
    readonly datacenter: string;
  };
}

/** What runs for the key, or ran for it last: its state, its address, what it went through, and why it ended. */
function BackendPanel({ resource }: OfKey) {
  const { read, known } = useNewest(resource);
  if (known === undefined) {
    return (
      <Panel title="Backend">
        {read.isError ? (
          <ErrorState read={read} what="the backends" />
        ) : (
          <NotKnown read={read} height={PANEL_PX} />
        )}
      </Panel>
    );
  }
  const [newest, before] = known.items;
  if (newest === undefined) return null;
  return <NewestBackend newest={newest} before={before} />;
}

/** What the newest backend of the key writes, and wrote. */
function BackendLog({ resource }: OfKey) {
  const { read, known } = useNewest(resource);
  if (known === undefined) {
    if (read.isError) return <ErrorState read={read} what="the backends" />;
    return <NotKnown read={read} height={150} />;
  }
  const [newest] = known.items;
  if (newest === undefined) {
    return (
      <EmptyState title="No backend">
        None was started for this key, or its record was removed after it had ended.
      </EmptyState>
    );
  }
  return <LogPanel backendId={newest.backendId} datacenter={newest.datacenter} />;
}

/** The newest backend of a key, and the one before it, as far as they are known: its datacenter may not answer. */
function useNewest({ namespace, name, datacenter }: OfKey['resource']) {
  const input = { namespace, name, limit: 2, ...at(datacenter) };
  const read = useLiveQuery('backends', 'list', input, { everyMs: EVERY_MS });
  return { read, known: useLastWhole(read, JSON.stringify(input)) };
}

/** In place of what has not been read yet, with the reason if that is a datacenter that does not answer. */
function NotKnown({
  read,
  height,
}: {
  readonly read: ReturnType<typeof useNewest>['read'];
  readonly height: number;
}) {
  return (
    <>
      <UnreachableNotice unreachable={read.data?.unreachable} />
      <Skeleton height={height} aria-busy="true" />
    </>
  );
}

type Backend = Outputs['backends']['list']['items'][number];

function NewestBackend({
  newest: { backendId, datacenter },
  before,
}: {
  readonly newest: Backend;
  readonly before: Backend | undefined;
}) {
  const input = { backendId, ...at(datacenter) };
  const read = useLiveQuery('backends', 'get', input, { everyMs: EVERY_MS });
  const backend = read.data;
  if (backend === undefined) {
    return (
      <Panel title="Backend">
        {read.isError ? (
          <ErrorState read={read} what="the backend" />
        ) : (
          <Skeleton height={PANEL_PX} aria-busy="true" />
        )}
      </Panel>
    );
  }
  const hasFailed = failureLabel(backend) !== undefined;
  const hasEnded = backend.status === 'terminated';
  return (
    <Panel
      title={hasEnded ? 'Last backend' : 'Backend'}
      meta={<LookBadge look={backendLook(backend)} isPlain={!hasFailed} />}
    >
      <StaleScope read={read}>
        {hasFailed ? (
          <div className={classes['why']}>
            <Notice tone="bad">
              <VisibleText>{endSentence(backend)}</VisibleText>{' '}
              <Link href={routes.backend(backendId, datacenter)}>Its last lines</Link>
            </Notice>
          </div>
        ) : null}
        <Facts
          items={{
            Backend: (
              <Link href={routes.backend(backendId, datacenter)} className="mono">
                {backendId}
              </Link>
            ),
            Program: backend.program,
            Address:
              backend.address === null || hasEnded ? null : (
                <>
                  <CopyableId id={backend.address} label="address" />{' '}
                  <OpenInBrowser of={backend.key} />
                </>
              ),
            ...idleFacts(backend),
            ...gatewayFacts(backend),
            [endLabel(backend.status)]: hasFailed ? null : endOf(backend),
            'The one before': before === undefined ? null : <BackendBefore backend={before} />,
          }}
        />
        <ol className={classes['states']} aria-label="States, oldest first">
          {backend.states.slice(-STATES_MAX).map((state) => (
            <li key={state.id}>
              <LookBadge look={backendLook({ ...state, address: backend.address })} isPlain />
              <time dateTime={state.at} className="mono">
                {clockMs(state.at)}
              </time>
            </li>
          ))}
        </ol>
      </StaleScope>
    </Panel>
  );
}

function BackendBefore({ backend }: { readonly backend: Backend }) {
  const { backendId, datacenter } = backend;
  return (
    <Link href={routes.backend(backendId, datacenter)} title={endOf(backend) ?? backendId}>
      <LookBadge look={backendLook(backend)} />
    </Link>
  );
}
