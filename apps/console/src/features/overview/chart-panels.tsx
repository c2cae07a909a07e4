'use client';

import type { StatsOverview } from '@leasehold/api/contract';
import { SegmentedControl, Skeleton } from '@mantine/core';
import dynamic from 'next/dynamic';
import { parseAsStringLiteral, useQueryState } from 'nuqs';
import { Panel } from '~/components/panel.tsx';
import { count } from '~/lib/format.ts';
import { CHARTS, type ChartSpec } from './chart-series.ts';
import { windowText } from './windows.ts';
import classes from './overview.module.css';

const ChartTable = dynamic(() => import('./chart-table.tsx').then((module) => module.ChartTable));

// Charts are heavy, and nothing above them waits for them.
const TimeChart = dynamic(() => import('./time-chart.tsx').then((module) => module.TimeChart), {
  ssr: false,
  loading: () => <Skeleton height={180} />,
});

/** What happened over time, as charts or as tables. */
export function ChartPanels({ stats }: { readonly stats: StatsOverview }) {
  const [view, setView] = useQueryState(
    'view',
    parseAsStringLiteral(['charts', 'tables'] as const)
      .withDefault('charts')
      .withOptions({ history: 'push' }),
  );
  return (
    <section aria-label="Over time">
      <div className={classes['over-time']}>
        <SegmentedControl
          aria-label="Show as"
          value={view}
          onChange={(value) => void setView(value === 'tables' ? 'tables' : 'charts')}
          data={[
            { value: 'charts', label: 'Charts' },
            { value: 'tables', label: 'Tables' },
          ]}
        />
      </div>
      <div className={classes['charts']}>
        {CHARTS.map((chart) => (
          <Panel
            key={chart.id}
            title={chart.title}
            meta={<span className={classes['total']}>{totalText(chart, stats)}</span>}
          >
            {view === 'charts' ? (
              <>
                <TimeChart chart={chart} stats={stats} />
                <Legend chart={chart} />
              </>
            ) : (
              <ChartTable chart={chart} stats={stats} />
            )}
          </Panel>
        ))}
      </div>
    </section>
  );
}

/** The lines as they are drawn, so that they can be told apart without their colours. */
function Legend({ chart }: { readonly chart: ChartSpec }) {
  return (
    <ul className={classes['legend']}>
      {chart.series.map(({ name, label, color, dash }) => (
        <li key={name}>
          <svg width="22" height="6" aria-hidden>
            <path d="M0 3h22" stroke={color} strokeWidth="2" strokeDasharray={dash ?? 'none'} />
          </svg>
          {label}
        </li>
      ))}
    </ul>
  );
}

function totalText({ series, valueText }: ChartSpec, { totals, windowMinutes }: StatsOverview) {
  const [first] = series;
  const value = first === undefined ? null : totals[first.name];
  if (value === null) return `none ${windowText(windowMinutes)}`;
  return `${valueText === count ? count(value) : `${first?.label ?? ''} ${valueText(value)}`} ${windowText(windowMinutes)}`;
}
