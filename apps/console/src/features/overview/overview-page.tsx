'use client';

import type { ContendedResource, StatsOverview } from '@leasehold/api/contract';
import { resourceText } from '@leasehold/keys-core';
import { SegmentedControl, Skeleton, Text } from '@mantine/core';
import { parseAsInteger, useQueryState } from 'nuqs';
import { memo } from 'react';
import { useDatacenters } from '~/lib/datacenters.ts';
import { count, duration, fullName } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routeOf, routes } from '~/lib/routes.ts';
import type { AuditEntry } from '~/resources/audit.ts';
import { PageHeader, Panel, PlainTable } from '~/ui/page.tsx';
import { DataAge, StaleScope } from '~/ui/stale.tsx';
import { ErrorState } from '~/ui/states.tsx';
import { Link, Mono, VisibleText } from '~/ui/text.tsx';
import { Activity, useRecentActs } from './activity.tsx';
import { Alarms } from './alarms/alarms.tsx';
import { ChartPanels } from './charts/chart-panels.tsx';
import { useSteps } from './charts/use-steps.ts';
import { EventLagPanel } from './event-lag-panel.tsx';
import { FailingKeys } from './failing-keys.tsx';
import { OwnDatacenter, RowsLink } from './rows-link.tsx';
import { Tiles } from './tiles.tsx';
import { Verdict } from './verdict.tsx';
import { DEFAULT_WINDOW_MINUTES, WINDOWS } from './windows.ts';
import classes from './overview.module.css';

const EVERY_MS = 3_000;
const NO_ACTS: readonly AuditEntry[] = [];

/** Shows within ten seconds whether the system is healthy. */
export function OverviewPage() {
  const [windowMinutes, setWindowMinutes] = useQueryState(
    'window',
    parseAsInteger.withDefault(DEFAULT_WINDOW_MINUTES).withOptions({ history: 'push' }),
  );
  const known = WINDOWS.some(({ minutes }) => minutes === windowMinutes);
  const minutes = known ? windowMinutes : DEFAULT_WINDOW_MINUTES;
  const read = useLiveQuery('stats', 'overview', { windowMinutes: minutes }, { everyMs: EVERY_MS });
  const acts = useRecentActs();
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
            onChange={(value) => void setWindowMinutes(Number(value))}
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
            <OverTime stats={read.data} acts={acts.read.data?.items ?? NO_ACTS} />
            <div className={classes['pair']}>
              <ContendedPanel contended={read.data.contended} />
              <Activity {...acts} />
            </div>
          </StaleScope>
        </OwnDatacenter>
      )}
    </div>
  );
}

function OverTime({
  stats,
  acts,
}: {
  readonly stats: StatsOverview;
  readonly acts: readonly AuditEntry[];
}) {
  const points = useSteps(stats);
  const { stepMs, windowMinutes, totals, before } = stats;
  return <ChartPanels {...{ points, stepMs, windowMinutes, totals, before, acts }} />;
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
        <RowsLink href={routes.leases({ tab: 'contention' })} className={classes['more']}>
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
