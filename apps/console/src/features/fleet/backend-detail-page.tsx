'use client';

import { Skeleton, Stack } from '@mantine/core';
import { useDocumentVisibility } from '@mantine/hooks';
import { IconPlayerStop } from '@tabler/icons-react';
import { useQueryClient, type UseQueryResult } from '@tanstack/react-query';
import dynamic from 'next/dynamic';
import { Fragment, useEffect, useState } from 'react';
import { bytesText, percentText, resourceText } from '@leasehold/keys-core';
import { api, type ApiError, query } from '~/lib/api/api.ts';
import { absolute, clockMs, duration } from '~/lib/format.ts';
import { pause } from '~/lib/live/live-state.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { at, routes } from '~/lib/routes.ts';
import { useWhyNot } from '~/lib/session.tsx';
import {
  backendLook,
  endLabel,
  endOf,
  endSentence,
  failureLabel,
} from '~/resources/backend-looks.ts';
import { gatewayFacts, idleFacts, OpenInBrowser } from '~/resources/backend-facts.tsx';
import { withoutTabs } from '~/resources/log/log-lines.ts';
import { DetailPage } from '~/ui/detail-page.tsx';
import { lazyDialog } from '~/ui/lazy.tsx';
import { Facts, Panel } from '~/ui/page.tsx';
import { usePageActs } from '~/ui/shell/palette-store.ts';
import { EmptyState, Notice } from '~/ui/states.tsx';
import {
  CopyableId,
  Link,
  LongName,
  LookBadge,
  Mono,
  RelativeTime,
  VisibleText,
} from '~/ui/text.tsx';
import { GuardedButton, Tip } from '~/ui/tip.tsx';
import {
  type BackendState,
  type BackendWithStates,
  type StateStep,
  stateSteps,
  STATUS_TEXTS,
  terminateProblem,
} from './backends.tsx';
import classes from './backend-detail-page.module.css';

// A log is loaded with the part of a page that shows it.
const LogPanel = dynamic(
  () => import('~/resources/log/log-panel.tsx').then((module) => module.LogPanel),
  { ssr: false, loading: () => <Skeleton height={240} aria-busy="true" /> },
);

const TerminateDialog = lazyDialog('isOpen', () =>
  import('./fleet-dialogs.tsx').then((module) => module.TerminateDialog),
);

const SECOND_MS = 1_000;

/** One process of one program: what became of it, and what it runs under. */
export function BackendDetailPage({
  backendId,
  datacenter,
}: {
  readonly backendId: string;
  /** The backend's datacenter; if empty, this controller's. */
  readonly datacenter: string;
}) {
  const read = useBackend(backendId, datacenter);
  return (
    <DetailPage
      title={<span className="mono">{backendId}</span>}
      eyebrow={<Link href={routes.backends()}>Backends</Link>}
      what="the backend"
      read={read}
      missingCode="backend.not_found"
      missing={
        <EmptyState title="No such backend">
          No backend with this id was started here, or its record was removed after it had ended.
        </EmptyState>
      }
      meta={(backend) => <LookBadge look={backendLook(backend)} />}
      actions={(backend) => <StopButton backend={backend} />}
    >
      {(backend) => (
        <>
          <Failure backend={backend} />
          <div className={classes['pair']}>
            <Panel title="States">
              <StateTimeline states={backend.states} />
            </Panel>
            <Stack gap="sm">
              <Panel title="Runs under">
                <KeyFacts backend={backend} />
              </Panel>
              <Panel title="Facts">
                <ProcessFacts backend={backend} />
              </Panel>
            </Stack>
          </div>
          <LogPanel backendId={backend.backendId} datacenter={backend.datacenter} />
        </>
      )}
    </DetailPage>
  );
}

function StopButton({ backend }: { readonly backend: BackendWithStates }) {
  const [isOpen, setOpen] = useState(false);
  const whyNot = useWhyNot('operator') ?? terminateProblem(backend.status);
  const run = (): void => setOpen(true);
  usePageActs([{ label: `Stop ${backend.backendId}`, icon: IconPlayerStop, whyNot, run }]);
  return (
    <>
      <GuardedButton variant="default" whyNot={whyNot} onClick={run}>
        Stop
      </GuardedButton>
      <TerminateDialog backend={backend} isOpen={isOpen} onClose={() => setOpen(false)} />
    </>
  );
}

function KeyFacts({ backend }: { readonly backend: BackendWithStates }) {
  return (
    <Facts
      items={{
        Key: (
          <Link href={routes.key({ ...backend.key, datacenter: backend.datacenter })}>
            <LongName>{resourceText(backend.key)}</LongName>
          </Link>
        ),
        Tag: backend.key.tag === '' ? null : <Mono>{backend.key.tag}</Mono>,
        Token: <Mono>{backend.fencingToken}</Mono>,
        Lease: <CopyableId id={backend.leaseId} label="lease id" isShort />,
      }}
    />
  );
}

function noAddress(status: BackendWithStates['status']): string {
  return status === 'terminated' ? 'none' : 'none yet';
}

function ProcessFacts({ backend }: { readonly backend: BackendWithStates }) {
  const { lifetimeLimitSeconds, address } = backend;
  return (
    <Facts
      items={{
        Program: <Mono>{backend.program}</Mono>,
        Kind: backend.image === null ? 'command' : 'container',
        CPU:
          backend.usage?.cpus == null
            ? null
            : `${percentText(backend.usage.cpus)} of one processor`,
        Memory: backend.usage === null ? null : bytesText(backend.usage.memoryBytes),
        Image: backend.image === null ? null : <Mono>{backend.image}</Mono>,
        Drone: (
          <Link href={routes.drone(backend.droneId, backend.datacenter)}>{backend.droneId}</Link>
        ),
        Datacenter: backend.datacenter,
        Address:
          address === null ? (
            noAddress(backend.status)
          ) : (
            <>
              <CopyableId id={address} label="address" />{' '}
              {backend.status === 'ready' ? <OpenInBrowser of={backend.key} /> : null}
            </>
          ),
        Started: <RelativeTime at={backend.createdAt} />,
        Lifetime:
          lifetimeLimitSeconds === null
            ? 'no limit'
            : `at most ${duration(lifetimeLimitSeconds * SECOND_MS)}`,
        ...idleFacts(backend),
        ...gatewayFacts(backend),
        [endLabel(backend.status)]: endOf(backend),
        'Output in':
          backend.logFiles === null ? null : (
            <CopyableId id={backend.logFiles} label="path of the output" />
          ),
      }}
    />
  );
}

/** How its program failed, and what it wrote last. Its drone keeps the rest, and this is here also without it. */
function Failure({ backend }: { readonly backend: BackendWithStates }) {
  if (failureLabel(backend) === undefined) return null;
  const { output } = backend;
  return (
    <Panel title="Why it ended">
      <Notice tone="bad">
        <VisibleText>{endSentence(backend)}</VisibleText>
      </Notice>
      {output === null ? (
        <p className={classes['last']}>It reported no output.</p>
      ) : (
        <>
          <p className={classes['last']}>Its last lines:</p>
          <pre className={classes['output']} aria-label="Its last lines" role="region" tabIndex={0}>
            {output.split('\n').map((line, nth) => (
              <Fragment key={nth}>
                <VisibleText>{withoutTabs(line)}</VisibleText>
                {'\n'}
              </Fragment>
            ))}
          </pre>
        </>
      )}
    </Panel>
  );
}

/**
 * A backend and its states. Each state appears when it is reported, and everything is also read again
 * regularly, so that a lost stream delays states by seconds and loses none.
 */
function useBackend(
  backendId: string,
  datacenter: string,
): UseQueryResult<BackendWithStates, ApiError> {
  const where = at(datacenter);
  const isHere = where.datacenter === undefined;
  const read = useLiveQuery('backends', 'get', { backendId, ...where });
  const queryClient = useQueryClient();
  const isSeen = useDocumentVisibility() !== 'hidden';
  // No stream after the last state, and none for a hidden tab, because a browser has few connections to
  // spare. Streams of other datacenters do not reach this controller.
  const isWatched =
    isHere && isSeen && read.data !== undefined && read.data.status !== 'terminated';
  useEffect(() => {
    if (!isWatched) return undefined;
    const { queryKey } = query('backends', 'get', { backendId });
    const subscription = api.subscription(
      'backends.watch',
      { backendId },
      {
        onData(data) {
          const { id } = data as BackendState;
          const known = queryClient.getQueryData<BackendWithStates>(queryKey);
          // The stream begins with every state from the first on.
          if (pause.isPaused() || known?.states.some((state) => state.id === id) === true) return;
          void queryClient.invalidateQueries({ queryKey });
        },
        // Then only the timer reads again.
        onError: () => undefined,
      },
    );
    return () => subscription.unsubscribe();
  }, [backendId, isWatched, queryClient]);
  return read;
}

/** Every state that a backend was in, from the first on, with how long it was in it. */
function StateTimeline({ states }: { readonly states: readonly BackendState[] }) {
  const lastAt = states.at(-1)?.at;
  const nowMs = useDatabaseNow() ?? (lastAt === undefined ? 0 : Date.parse(lastAt));
  return (
    <ol className={classes['timeline']}>
      {stateSteps(states, nowMs).map((step) => (
        <Step key={step.state.id} step={step} address={addressOf(states)} />
      ))}
    </ol>
  );
}

/** Known once it was ready. */
function addressOf(states: readonly BackendState[]): string | null {
  return states.find(({ address }) => address !== null)?.address ?? null;
}

function Step({
  step: { state, durationMs, isPresent },
  address,
}: {
  readonly step: StateStep;
  readonly address: string | null;
}) {
  const { label, tone, icon: LookIcon } = backendLook({ ...state, address });
  return (
    <li className={classes['step']} data-tone={tone} data-present={isPresent || undefined}>
      <span className={classes['mark']} aria-hidden>
        <LookIcon size={14} stroke={2} />
      </span>
      <div className={classes['what']}>
        <div className={classes['line']}>
          <strong>{label}</strong>
          <Tip label={<span className="mono">{absolute(state.at)}</span>}>
            <time className="mono" dateTime={state.at} tabIndex={0}>
              {clockMs(state.at)}
            </time>
          </Tip>
          {durationMs === null ? null : (
            <span className={classes['duration']}>for {duration(durationMs)}</span>
          )}
        </div>
        <Details state={state} />
      </div>
    </li>
  );
}

function Details({ state }: { readonly state: BackendState }) {
  const { address, detail, status } = state;
  const end = endOf(state);
  return (
    <div className={classes['details']}>
      {end === undefined ? STATUS_TEXTS[status] : `Because ${end}.`}
      {address === null ? null : (
        <>
          {' '}
          Address <Mono>{address}</Mono>.
        </>
      )}
      {detail === null ? null : (
        <span className={classes['detail']}>
          <VisibleText>{detail}</VisibleText>
        </span>
      )}
    </div>
  );
}
