'use client';

import { SegmentedControl, Skeleton } from '@mantine/core';
import { parseAsInteger, useQueryState } from 'nuqs';
import { PageHeader } from '~/ui/page/page-header.tsx';
import { DataAge } from '~/ui/states/data-age.tsx';
import { ErrorState } from '~/ui/states/states.tsx';
import { StaleScope } from '~/ui/states/stale-scope.tsx';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { ChartPanels } from './charts/chart-panels.tsx';
import { ContendedPanel } from './contended-panel.tsx';
import { RecentActs } from './recent-acts.tsx';
import { Tiles } from './tiles.tsx';
import { Verdict } from './verdict.tsx';
import { WINDOWS, DEFAULT_WINDOW_MINUTES } from './windows.ts';
import classes from './overview.module.css';

const EVERY_MS = 3_000;

/** Shows within ten seconds whether the system is healthy. */
export function OverviewPage() {
  const [windowMinutes, setWindowMinutes] = useQueryState(
    'window',
    parseAsInteger.withDefault(DEFAULT_WINDOW_MINUTES).withOptions({ history: 'push' }),
  );
  const known = WINDOWS.some(({ minutes }) => minutes === windowMinutes);
  const minutes = known ? windowMinutes : DEFAULT_WINDOW_MINUTES;
  const read = useLiveQuery('stats', 'overview', { windowMinutes: minutes }, { everyMs: EVERY_MS });
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
          <ErrorState error={read.error} what="the overview" onRetry={() => void read.refetch()} />
        ) : (
          <OverviewSkeleton />
        )
      ) : (
        <StaleScope read={read}>
          <Verdict stats={read.data} />
          <Tiles stats={read.data} />
          <ChartPanels stats={read.data} />
          <div className={classes['pair']}>
            <ContendedPanel contended={read.data.contended} />
            <RecentActs />
          </div>
        </StaleScope>
      )}
    </div>
  );
}

/** The page's shape while its first numbers are on their way. */
function OverviewSkeleton() {
  return (
    <div className={classes['page']} aria-busy aria-label="Loading" role="status">
      <Skeleton height={44} />
      <div className={classes['tiles']}>
        {['a', 'b', 'c', 'd', 'e', 'f'].map((key) => (
          <Skeleton key={key} height={86} />
        ))}
      </div>
      <div className={classes['charts']}>
        {['a', 'b', 'c', 'd'].map((key) => (
          <Skeleton key={key} height={220} />
        ))}
      </div>
    </div>
  );
}
