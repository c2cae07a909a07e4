import { LineChart } from '@mantine/charts';
import type { StatsOverview } from '@leasehold/api/contract';
import { clockTime, duration } from '~/lib/format.ts';
import { axisTicks } from './chart-axis.ts';
import { finishedSteps, valueText, type ChartSpec } from './chart-series.ts';

/** One chart. What it shows is in the tables too, for people who cannot see it. */
export function TimeChart({
  chart,
  stats,
  greatest,
}: {
  readonly chart: ChartSpec;
  readonly stats: StatsOverview;
  /** The greatest of the values. */
  readonly greatest: number;
}) {
  const ticks = axisTicks(greatest, chart.unit);
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
        valueFormatter={(value) => valueText(chart, value)}
        tickLine="none"
        gridAxis="x"
        yAxisProps={{
          width: 52,
          ticks,
          domain: [0, ticks.at(-1) ?? greatest],
          interval: 0,
          tickFormatter: (value: number) => (value === 0 ? '0' : valueText(chart, value)),
        }}
        xAxisProps={{ minTickGap: 40, interval: 'equidistantPreserveStart' }}
        lineChartProps={{ accessibilityLayer: false, margin: { top: 6, right: 8 } }}
        lineProps={{ isAnimationActive: false }}
      />
    </div>
  );
}
