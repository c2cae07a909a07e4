'use client';

import { Code, SegmentedControl, Skeleton, Text } from '@mantine/core';
import { IconAlertTriangle, IconCircleCheck, IconHelpCircle } from '@tabler/icons-react';
import dynamic from 'next/dynamic';
import { Fragment, memo, useState } from 'react';
import type {
  ClockJumpView,
  ContendedResource,
  EventLag,
  FailingKey,
  HoldOffView,
  StatsOverview,
} from '@leasehold/api/contract';
import { HOLD_OFF_CAUSES, resourceText, sayFailure } from '@leasehold/keys-core';
import { integerParam, useQueryState } from '~/lib/address.ts';
import { useDatacenters } from '~/lib/datacenters.ts';
import { absolute, count, duration, fullName } from '~/lib/format.ts';
import { pause } from '~/lib/live/live-state.ts';
import { useDatabaseNow, useStaleSince } from '~/lib/live/use-database-now.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routeOf, routes } from '~/lib/routes.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { useSignal } from '~/lib/signal.ts';
import { actSentence, type AuditEntry } from '~/resources/audit.ts';
import { failureLook } from '~/resources/backend-looks.ts';
import { lazyDialog } from '~/ui/lazy.tsx';
import { Facts, PageHeader, Panel, PlainTable } from '~/ui/page.tsx';
import { DataAge, StaleScope } from '~/ui/stale.tsx';
import { ErrorState, NotAllowed, Notice } from '~/ui/states.tsx';
import { Link, LookBadge, Mono, RelativeTime, VisibleText } from '~/ui/text.tsx';
import { GuardedButton } from '~/ui/tip.tsx';
import { ChartPanels, useSteps } from './charts/chart-panels.tsx';
import { markedSince } from './charts/chart-series.ts';
import {
  concernText,
  DEFAULT_WINDOW_MINUTES,
  EVENTS_LATE_MS,
  remedyOf,
  WINDOWS,
} from './overview-texts.ts';
import { OwnDatacenter, RowsLink, Tiles } from './tiles.tsx';
import classes from './overview.module.css';

/**
 * One line: healthy, or what is not, each since when. It is about this moment, whatever time is shown below.
 * Data that is stale or paused never counts as healthy.
 */
function Verdict({ stats }: { readonly stats: StatsOverview }) {
  const { concerns, since } = stats.health;
  const isPaused = useSignal(pause.isPausedByHand);
  const isStale = useStaleSince() !== null;
  if ((isStale || isPaused) && concerns.length === 0) {
    return (
      <div className={classes['verdict']} data-tone="warn" role="status">
        <IconHelpCircle size={20} aria-hidden />
        <strong>Not known</strong>
        <span>Healthy at the last reading.</span>
      </div>
    );
  }
  const isHealthy = concerns.length === 0;
  const isBad = concerns.some(({ tone }) => tone === 'bad');
  const VerdictIcon = isHealthy ? IconCircleCheck : IconAlertTriangle;
  return (
    <div
      className={classes['verdict']}
      data-tone={isHealthy ? 'good' : isBad ? 'bad' : 'warn'}
      role="status"
    >
      <VerdictIcon size={20} aria-hidden />
      <strong>
        {isHealthy ? 'Healthy' : 'Needs attention'}
        {isHealthy && since !== null ? (
          <>
            {' '}
            <Since at={since} asOf={stats.asOf} />
          </>
        ) : null}
      </strong>
      {isHealthy ? (
        <span>
          {stats.drones.total === 0 ? 'No drones yet.' : 'All drones reporting.'} Expiries are
          recorded in time, and holders renew.
        </span>
      ) : (
        <ul className={classes['concerns']}>
          {concerns.map((concern) => {
            const { text, href } = concernText(concern, stats);
            return (
              <li key={text}>
                {href === null ? text : <RowsLink href={href}>{text}</RowsLink>}
                {concern.since === null ? null : (
                  <>
                    {' '}
                    <Since at={concern.since} asOf={stats.asOf} />
                  </>
                )}
              </li>
            );
          })}
        </ul>
      )}
    </div>
  );
}

const EndHoldOffDialog = lazyDialog('holdOff', () =>
  import('./end-hold-off-dialog.tsx').then((module) => module.EndHoldOffDialog),
);

/** What is wrong with the database itself: what holds, since when, until when, and what can be done. */
function Alarms({ stats }: { readonly stats: StatsOverview }) {
  const { holdOff, clockJump, datacenter } = stats;
  return (
    <>
      {holdOff == null ? null : <HoldOffAlarm holdOff={holdOff} datacenter={datacenter} />}
      {clockJump == null ? null : <ClockAlarm jump={clockJump} />}
    </>
  );
}

function HoldOffAlarm({
  holdOff,
  datacenter,
}: {
  readonly holdOff: HoldOffView;
  readonly datacenter: string;
}) {
  const whyNot = useWhyNot('operator', { isOfAll: true });
  const [ending, setEnding] = useState<HoldOffView | null>(null);
  const { since, until, cause, remainingMs } = holdOff;
  const begun = since === null ? '' : ` since ${absolute(since)}`;
  const why = cause === null ? '' : `: ${HOLD_OFF_CAUSES[cause]}`;
  return (
    <>
      <Notice
        tone="bad"
        action={
          <GuardedButton
            size="compact-sm"
            color="red.8"
            whyNot={whyNot}
            onClick={() => setEnding(holdOff)}
          >
            End the hold-off
          </GuardedButton>
        }
      >
        <strong>New grants are held off</strong>
        {begun}, until {absolute(until)}: {duration(remainingMs)} more. The database was restored,
        or failed over{why}. Grants that it lost may still be in use. Renewals continue.
      </Notice>
      <EndHoldOffDialog holdOff={ending} datacenter={datacenter} onClose={() => setEnding(null)} />
    </>
  );
}

function ClockAlarm({ jump }: { readonly jump: ClockJumpView }) {
  const { at, jumpMs, remainingMs, unsureUntil } = jump;
  const direction = jumpMs > 0 ? 'forward' : 'back';
  return (
    <Notice tone={remainingMs > 0 ? 'bad' : 'warn'}>
      <strong>
        The database’s clock stepped {direction} by {duration(Math.abs(jumpMs))}
      </strong>{' '}
      at {absolute(at)}.{' '}
      {remainingMs > 0
        ? `Grants from before the step are not granted again until ${absolute(unsureUntil)} at worst, even if they have expired. ${duration(remainingMs)} left.`
        : 'Expired grants are granted again as usual.'}{' '}
      Find out what stepped the clock, and have it slewed instead.
    </Notice>
  );
}

// Below what is seen first.
const ContentionPanel = dynamic(() =>
  import('~/resources/contention.tsx').then((module) => module.ContentionPanel),
);

const MINUTE_MS = 60_000;

/** `for 4 min`: it grows while it is shown, which nobody is told again and again. */
function Since({ at, asOf }: { readonly at: string; readonly asOf: string }) {
  const nowMs = useDatabaseNow() ?? Date.parse(asOf);
  const ms = nowMs - Date.parse(at);
  // From a minute on seconds tell nothing.
  const text = duration(ms < MINUTE_MS ? ms : Math.floor(ms / MINUTE_MS) * MINUTE_MS);
  return (
    <span className="dimmed" aria-live="off">
      for <time dateTime={at}>{ms < 1_000 ? '1 s' : text}</time>
    </span>
  );
}

const EVERY_MS = 3_000;
const NO_ACTS: readonly AuditEntry[] = [];

/** Shows within ten seconds whether the system is healthy. */
export function OverviewPage() {
  const whyNot = useWhyNot('viewer', { isOfAll: true });
  if (whyNot === undefined) return <Overview />;
  return (
    <>
      <PageHeader title="Overview" />
      <NotAllowed whyNot={whyNot}>What is counted here is counted over all of them.</NotAllowed>
    </>
  );
}

function Overview() {
  const [windowMinutes, setWindowMinutes] = useQueryState(
    'window',
    integerParam.withDefault(DEFAULT_WINDOW_MINUTES),
  );
  const known = WINDOWS.some(({ minutes }) => minutes === windowMinutes);
  const minutes = known ? windowMinutes : DEFAULT_WINDOW_MINUTES;
  const read = useLiveQuery('stats', 'overview', { windowMinutes: minutes }, { everyMs: EVERY_MS });
  const { here, isSeveral } = useDatacenters();
  return (
    <div className={classes['page']}>
      <PageHeader
        title="Overview"
        meta={<DataAge read={read} asOf={read.data?.asOf} />}
        actions={
          <SegmentedControl
            aria-label="Time shown"
            value={String(minutes)}
            onChange={(value) => setWindowMinutes(Number(value))}
            data={WINDOWS.map(({ minutes: value, label }) => ({ value: String(value), label }))}
          />
        }
      />
      {read.data === undefined ? (
        read.isError ? (
          <ErrorState read={read} what="the overview" />
        ) : (
          <OverviewSkeleton />
        )
      ) : (
        <OwnDatacenter value={isSeveral ? here : undefined}>
          <StaleScope read={read}>
            <Verdict stats={read.data} />
            <Alarms stats={read.data} />
            <EventLagPanel lag={read.data.eventLag} />
            <FailingKeys failing={read.data.failing} asOf={read.data.asOf} />
            <Tiles stats={read.data} />
            <OverTime stats={read.data} />
            <div className={classes['pair']}>
              <ContendedPanel contended={read.data.contended} />
              <Activity />
            </div>
            <ContentionPanel windowMinutes={minutes} />
          </StaleScope>
        </OwnDatacenter>
      )}
    </div>
  );
}

function OverTime({ stats }: { readonly stats: StatsOverview }) {
  const points = useSteps(stats);
  const { stepMs, windowMinutes, totals, before } = stats;
  const { data } = useActs({ limit: MARKED, windowMinutes }).read;
  const acts = data?.items ?? NO_ACTS;
  const markedFrom = data === undefined ? null : markedSince(data);
  return <ChartPanels {...{ points, stepMs, windowMinutes, totals, before, acts, markedFrom }} />;
}

/** The page's shape while its first numbers are on their way. */
function OverviewSkeleton() {
  return (
    <div className={classes['page']} aria-busy aria-label="Loading" role="status">
      <Skeleton height={44} />
      <div className={classes['tiles']}>
        {['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((key) => (
          <Skeleton key={key} height={86} />
        ))}
      </div>
      <div className={classes['skeletons']}>
        {['a', 'b', 'c', 'd'].map((key) => (
          <Skeleton key={key} height={220} />
        ))}
      </div>
    </div>
  );
}

/** What several callers want at once, most wanted first. */
const ContendedPanel = memo(function ContendedPanel({
  contended,
}: {
  readonly contended: readonly ContendedResource[];
}) {
  return (
    <Panel
      title="Most waited for"
      meta={
        <RowsLink href={routes.leases({ tab: 'waits' })} className={classes['more']}>
          Who is waiting for whom
        </RowsLink>
      }
      isFlush={contended.length > 0}
    >
      {contended.length === 0 ? (
        <Text size="sm" c="dimmed">
          Nobody is waiting for a key, a lease or an environment.
        </Text>
      ) : (
        <div className={classes['contended']}>
          <PlainTable
            label="Resources most waited for"
            heads={[
              { text: 'Resource' },
              { text: 'Held by' },
              { text: 'Waiting', align: 'end' },
              { text: 'Longest', align: 'end' },
            ]}
          >
            {contended.map((resource) => (
              <tr key={`${resource.face} ${fullName(resource)}`}>
                <td className={classes['name']}>
                  <Link href={routeOf(resource.face, resource)} title={fullName(resource)}>
                    <VisibleText>{resourceText(resource)}</VisibleText>
                  </Link>
                </td>
                <td className={classes['name']}>
                  {resource.holder === null ? (
                    '–'
                  ) : (
                    <Mono title={resource.holder}>{resource.holder}</Mono>
                  )}
                </td>
                <td data-align="end">
                  <Link href={routeOf(resource.face, resource)}>{count(resource.waiters)}</Link>
                </td>
                <td data-align="end">{duration(resource.longestWaitMs)}</td>
              </tr>
            ))}
          </PlainTable>
        </div>
      )}
    </Panel>
  );
});

const SHOWN = 8;
/** How many the charts mark at most. */
const MARKED = 200;
/** The audit makes no events. */
const ACTIVITY_EVERY_MS = 10_000;

/** What people and tokens did, sign-ins left out; nothing for a role that may not read the audit. */
function useActs(of: { readonly limit: number; readonly windowMinutes?: number }) {
  const whyNot = useWhyNot('operator', { isOfAll: true });
  const read = useLiveQuery(
    'audit',
    'list',
    { ...of, signIns: false },
    { enabled: whyNot === undefined, everyMs: ACTIVITY_EVERY_MS },
  );
  return { whyNot, read };
}

/** What people did lately, in sentences, and why. */
function Activity() {
  const { whyNot, read } = useActs({ limit: SHOWN });
  return (
    <Panel
      title="Recent activity"
      meta={
        <Link href={routes.audit()} className={classes['more']}>
          Audit
        </Link>
      }
    >
      {whyNot !== undefined ? (
        <Text size="sm" c="dimmed">
          {whyNot}
        </Text>
      ) : read.data === undefined && read.isError ? (
        <ErrorState read={read} what="the audit" />
      ) : read.data === undefined ? (
        <Skeleton height={120} aria-busy="true" />
      ) : read.data.items.length === 0 ? (
        <Text size="sm" c="dimmed">
          No actions yet. Sign-ins are in the audit.
        </Text>
      ) : (
        <StaleScope read={read} everyMs={ACTIVITY_EVERY_MS}>
          <ol className={classes['acts']} aria-label="Recent activity">
            {read.data.items.map((act) => (
              <li key={act.id}>
                <ActLine act={act} />
              </li>
            ))}
          </ol>
        </StaleScope>
      )}
    </Panel>
  );
}

function ActLine({ act }: { readonly act: AuditEntry }) {
  return (
    <>
      <span>
        {actSentence(act).map(({ text, href }, index) => (
          <Fragment key={index}>
            {href === null ? (
              text
            ) : (
              <Link href={href}>
                <VisibleText>{text}</VisibleText>
              </Link>
            )}
          </Fragment>
        ))}
      </span>
      <span className="small-print">
        {act.reason === null ? null : (
          <>
            <VisibleText>{`“${act.reason}”`}</VisibleText> ·{' '}
          </>
        )}
        <RelativeTime at={act.at} />
      </span>
    </>
  );
}

/** Keys whose programs fail, each with a link to why, and to what the program wrote last; nothing without any. */
const FailingKeys = memo(function FailingKeys({
  failing,
  asOf,
}: {
  readonly failing: readonly FailingKey[];
  readonly asOf: string;
}) {
  if (failing.length === 0) return null;
  return (
    <Panel title="Failing programs" isFlush>
      <div className={classes['failing']}>
        <PlainTable
          label="Keys whose last backend failed"
          heads={[
            { text: 'Why' },
            { text: 'Key' },
            { text: 'Failures', align: 'end' },
            { text: 'Last', align: 'end' },
          ]}
        >
          {failing.map((key) => (
            <tr key={fullName(key)}>
              <td>
                <Link href={routes.backend(key.backendId)} title="Why it ended, and its last lines">
                  <LookBadge look={failureLook(sayFailure(key))} />
                </Link>
              </td>
              <td className={classes['name']}>
                <Link href={routes.key(key)} title={fullName(key)}>
                  <VisibleText>{resourceText(key)}</VisibleText>
                </Link>
              </td>
              <td data-align="end">{failuresText(key)}</td>
              <td data-align="end">
                <RelativeTime at={key.failedAt} asOf={asOf} />
              </td>
            </tr>
          ))}
        </PlainTable>
      </div>
    </Panel>
  );
});

/** `25 in 5 min`: how often it failed in a row, and over which time. */
function failuresText({ failures, since, failedAt }: FailingKey): string {
  if (failures === 1) return '1';
  return `${count(failures)} in ${duration(Date.parse(failedAt) - Date.parse(since))}`;
}

/** Which transaction holds the events back, and how to end it; nothing while events are in time. */
function EventLagPanel({ lag: { lagMs, culprit } }: { readonly lag: EventLag }) {
  if (lagMs <= EVENTS_LATE_MS) return null;
  return (
    <Panel title="Events are held back">
      <Text size="sm">
        A transaction that is still open may write an event older than the newest ones. Until it
        ends, nobody receives those: not this page, not <Code>events tail</Code>, not a service that
        watches events. Leases and keys do not wait for it.
      </Text>
      {culprit === null ? null : (
        <>
          <Facts
            items={{
              'Events are late by': duration(lagMs),
              Process: culprit.pid === null ? null : <Mono>{`pid ${String(culprit.pid)}`}</Mono>,
              'Prepared as': culprit.preparedAs && <bdi className="mono">{culprit.preparedAs}</bdi>,
              Application: culprit.applicationName && <bdi>{culprit.applicationName}</bdi>,
              Database: culprit.database && <bdi className="mono">{culprit.database}</bdi>,
              State: culprit.state,
              'Open for': culprit.ageMs === null ? null : duration(culprit.ageMs),
              'Last statement began':
                culprit.queryAgeMs === null ? null : `${duration(culprit.queryAgeMs)} ago`,
            }}
          />
          <Text size="sm">{remedyOf(culprit).text}</Text>
          <Code block className={classes['remedy'] ?? ''}>
            {remedyOf(culprit).sql}
          </Code>
        </>
      )}
    </Panel>
  );
}
