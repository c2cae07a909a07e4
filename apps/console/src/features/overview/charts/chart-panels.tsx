import type { StatsOverview, StatsPoint } from '@leasehold/api/contract';
import { SegmentedControl, Skeleton } from '@mantine/core';
import dynamic from 'next/dynamic';
import { parseAsStringLiteral, useQueryState } from 'nuqs';
import { memo } from 'react';
import type { AuditEntry } from '~/resources/audit.ts';
import { Panel } from '~/ui/page.tsx';
import { windowText } from '../windows.ts';
import { Legend, LegendTime } from './chart-legend.tsx';
import { CHARTS, greatestOf } from './chart-series.ts';
import classes from './charts.module.css';

const ChartTable = dynamic(() => import('./chart-table.tsx').then((module) => module.ChartTable));

// Charts are heavy, and nothing above them waits for them.
const TimeChart = dynamic(() => import('./time-chart.tsx').then((module) => module.TimeChart), {
  ssr: false,
  loading: () => <Skeleton height={168} aria-busy="true" />,
});

/** What happened over time, as charts or as tables. What there was nothing of has no chart. */
export const ChartPanels = memo(function ChartPanels({
  points,
  stepMs,
  windowMinutes,
  totals,
  before,
  acts,
}: Pick<StatsOverview, 'stepMs' | 'windowMinutes' | 'totals' | 'before'> & {
  /** The steps that are over. */
  readonly points: readonly StatsPoint[];
  readonly acts: readonly AuditEntry[];
}) {
  const [view, setView] = useQueryState(
    'view',
    parseAsStringLiteral(['charts', 'tables'] as const)
      .withDefault('charts')
      .withOptions({ history: 'push' }),
  );
  const drawn = CHARTS.filter((chart) => greatestOf(chart, points) !== null);
  const empty = CHARTS.filter((chart) => !drawn.includes(chart));
  return (
    <section aria-label="Over time" className={classes['over-time']}>
      {drawn.length === 0 ? null : (
        <SegmentedControl
          className={classes['view'] ?? ''}
          aria-label="Show as"
          value={view}
          onChange={(value) => void setView(value === 'tables' ? 'tables' : 'charts')}
          data={[
            { value: 'charts', label: 'Charts' },
            { value: 'tables', label: 'Tables' },
          ]}
        />
      )}
      {drawn.length === 0 ? null : (
        <div className={classes['charts']} data-count={drawn.length}>
          {drawn.map((chart, place) => (
            <Panel
              key={chart.id}
              title={chart.title}
              meta={<LegendTime {...{ points, stepMs, windowMinutes }} />}
            >
              {view === 'charts' ? (
                <>
                  <TimeChart {...{ chart, points, stepMs, acts }} hasTabStops={place === 0} />
                  <Legend {...{ chart, points, totals, before, windowMinutes }} />
                </>
              ) : (
                <ChartTable chart={chart} points={points} />
              )}
            </Panel>
          ))}
        </div>
      )}
      {empty.length === 0 ? null : (
        <p className={classes['nothing']}>
          No {listed(empty.map(({ nothing }) => nothing))} {windowText(windowMinutes)}.
        </p>
      )}
    </section>
  );
});

/** `grants, waits or handovers` */
function listed(words: readonly string[]): string {
  return words.length < 2
    ? words.join('')
    : `${words.slice(0, -1).join(', ')} or ${words.at(-1) ?? ''}`;
}
