import type { StatsOverview } from '@leasehold/api/contract';
import { SegmentedControl, Skeleton } from '@mantine/core';
import dynamic from 'next/dynamic';
import { parseAsStringLiteral, useQueryState } from 'nuqs';
import { Panel } from '~/ui/page/panel.tsx';
import { greatestOf } from './chart-axis.ts';
import { CHARTS, valueText, type ChartSpec } from './chart-series.ts';
import { windowText } from '../windows.ts';
import classes from '../overview.module.css';

const ChartTable = dynamic(() => import('./chart-table.tsx').then((module) => module.ChartTable));

// Charts are heavy, and nothing above them waits for them.
const TimeChart = dynamic(() => import('./time-chart.tsx').then((module) => module.TimeChart), {
  ssr: false,
  loading: () => <Skeleton height={180} aria-busy="true" />,
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
            meta={<span className="small-print">{totalText(chart, stats)}</span>}
          >
            {view === 'charts' ? (
              <Chart chart={chart} stats={stats} />
            ) : (
              <ChartTable chart={chart} stats={stats} />
            )}
          </Panel>
        ))}
      </div>
    </section>
  );
}

function Chart({ chart, stats }: { readonly chart: ChartSpec; readonly stats: StatsOverview }) {
  const greatest = greatestOf(chart, stats);
  if (greatest === null) {
    return (
      <p className={classes['nothing']}>
        {chart.nothing} {windowText(stats.windowMinutes)}.
      </p>
    );
  }
  return (
    <>
      <TimeChart chart={chart} stats={stats} greatest={greatest} />
      <Legend chart={chart} />
    </>
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

function totalText(chart: ChartSpec, { totals, windowMinutes }: StatsOverview) {
  const [first] = chart.series;
  const value = first === undefined ? null : totals[first.name];
  if (value === null) return `none ${windowText(windowMinutes)}`;
  const text = valueText(chart, value);
  return `${chart.unit === 'count' ? text : `${first?.label ?? ''} ${text}`} ${windowText(windowMinutes)}`;
}
