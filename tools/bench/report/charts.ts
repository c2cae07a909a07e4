/** The charts of a report, as SVG: they need no script and no network. */
import { BarChart, LineChart } from 'echarts/charts';
import { GridComponent, LegendComponent, TitleComponent } from 'echarts/components';
import * as echarts from 'echarts/core';
import { SVGRenderer } from 'echarts/renderers';
import type { Bar, Course, Figure } from '../rig/figures.ts';

echarts.use([BarChart, LineChart, GridComponent, LegendComponent, TitleComponent, SVGRenderer]);

const WIDTH = 760;
const HEIGHT = 320;
/** Rates of services that are far apart are shown on a logarithmic scale. */
const FAR_APART = 20;
/** Told apart by people who see few colours, and on white. */
const COLORS = ['#4263eb', '#e8590c', '#2b8a3e', '#868e96', '#ae3ec9'];

export interface Chart {
  readonly title: string;
  readonly svg: string;
}

type BarFigure = Figure & { readonly bar: Bar };
type CourseFigure = Figure & { readonly course: Course };

export function chartsOf(figures: readonly Figure[]): Chart[] {
  const bars = figures.filter((figure): figure is BarFigure => figure.bar !== undefined);
  const courses = figures.filter((figure): figure is CourseFigure => figure.course !== undefined);
  const titles = [...new Set(bars.map(({ bar }) => bar.chart))];
  return [
    ...titles.map((title) =>
      barChart(
        title,
        bars.filter(({ bar }) => bar.chart === title),
      ),
    ),
    ...courses.map(courseChart),
  ];
}

function barChart(title: string, figures: readonly BarFigure[]): Chart {
  const groups = [...new Set(figures.map(({ bar }) => bar.group))];
  const names = [...new Set(figures.map(({ bar }) => bar.name))];
  const isStacked = figures.some(({ bar }) => bar.isStacked === true);
  const values = figures.map(({ result }) => result.value);
  const isFarApart = !isStacked && Math.max(...values) > FAR_APART * Math.min(...values);
  const valueOf = (group: string, name: string): number | null =>
    figures.find(({ bar }) => bar.group === group && bar.name === name)?.result.value ?? null;
  return draw(title, {
    legend: { top: 28, data: names },
    xAxis: { type: 'category', data: groups },
    yAxis: { type: isFarApart ? 'log' : 'value', axisLabel: { formatter: shortNumber } },
    series: names.map((name) => ({
      name,
      type: 'bar',
      ...(isStacked ? { stack: 'all' } : {}),
      label: {
        show: true,
        position: isStacked ? 'inside' : 'top',
        formatter: ({ value }: { value: unknown }) => shortNumber(Number(value)),
      },
      data: groups.map((group) => valueOf(group, name)),
    })),
  });
}

function courseChart({ what, course, result }: CourseFigure): Chart {
  return draw(`${what}, in ${result.unit}, over seconds`, {
    xAxis: { type: 'value', max: 'dataMax' },
    yAxis: { type: 'value', min: 0 },
    series: [
      {
        type: 'line',
        showSymbol: false,
        data: course.atS.map((atS, place) => [atS, course.values[place]]),
      },
    ],
  });
}

function draw(title: string, options: echarts.EChartsCoreOption): Chart {
  const chart = echarts.init(null, null, {
    renderer: 'svg',
    ssr: true,
    width: WIDTH,
    height: HEIGHT,
  });
  chart.setOption({
    animation: false,
    color: COLORS,
    title: { text: title, left: 'center', textStyle: { fontSize: 14 } },
    grid: { left: 60, right: 20, top: 64, bottom: 32 },
    ...options,
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return { title, svg };
}

function shortNumber(value: number): string {
  if (value >= 1_000) return `${(value / 1_000).toFixed(value >= 10_000 ? 0 : 1)}k`;
  return value >= 10 ? value.toFixed(0) : String(Number(value.toFixed(1)));
}
