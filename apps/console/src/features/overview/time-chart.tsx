'use client';

import { LineChart } from '@mantine/charts';
import type { StatsOverview } from '@leasehold/api/contract';
import { clockTime, duration } from '~/lib/format.ts';
import { finishedSteps, type ChartSpec } from './chart-series.ts';

/** One chart. What it shows is in the tables too, for whoever cannot see it. */
export function TimeChart({
  chart,
  stats,
}: {
  readonly chart: ChartSpec;
  readonly stats: StatsOverview;
}) {
  return (
    <div
      role="img"
      aria-label={`${chart.title}, in steps of ${duration(stats.stepMs)}. The tables say the same in numbers.`}
    >
      <LineChart
        h={180}
        data={finishedSteps(stats).map((point) => ({
          ...point,
          at: clockTime(point.at).slice(0, 5),
        }))}
        dataKey="at"
        series={chart.series.map(({ name, label, color, dash }) => ({
          name,
          label,
          color,
          ...(dash === undefined ? {} : { strokeDasharray: dash }),
        }))}
        withDots={false}
        curveType="linear"
        strokeWidth={1.75}
        connectNulls={false}
        valueFormatter={chart.valueText}
        tickLine="none"
        gridAxis="x"
        yAxisProps={{ width: 52, allowDecimals: false, tickCount: 4, interval: 0 }}
        xAxisProps={{ minTickGap: 48 }}
        lineChartProps={{ accessibilityLayer: false, margin: { top: 6, right: 8 } }}
        lineProps={{ isAnimationActive: false }}
      />
    </div>
  );
}
