import type { StatsPoint } from '@leasehold/api/contract';
import { memo, useEffect, useMemo, useRef, useState } from 'react';
import { clockTime, duration } from '~/lib/format.ts';
import { useSignal } from '~/lib/signal.ts';
import type { AuditEntry } from '~/resources/audit.ts';
import { chartCursor, movedBy } from './chart-cursor.ts';
import { type ChartSpec, valueText } from './chart-series.ts';
import { type ChartArea, drawChart, type DrawnChart } from './draw-chart.ts';
import { marksOf } from './marks/chart-marks.ts';
import { MarkLinks } from './marks/mark-links.tsx';
import { watchTheme } from './watch-theme.ts';
import 'uplot/dist/uPlot.min.css';
import classes from './charts.module.css';

/**
 * One chart. All charts have one cursor, which pointer and arrow keys move. What they show is in the tables
 * too. It is drawn again only when `points` or `acts` are others.
 */
export const TimeChart = memo(function TimeChart({
  chart,
  points,
  stepMs,
  acts,
  hasTabStops,
}: {
  readonly chart: ChartSpec;
  readonly points: readonly StatsPoint[];
  readonly stepMs: number;
  /** What people did, newest first. */
  readonly acts: readonly AuditEntry[];
  /** Whether Tab reaches the marks: they are the same in every chart. */
  readonly hasTabStops: boolean;
}) {
  const root = useRef<HTMLDivElement>(null);
  const [drawn, setDrawn] = useState<DrawnChart | null>(null);
  const [area, setArea] = useState<ChartArea | null>(null);
  const marks = useMemo(() => (area === null ? [] : marksOf(acts, area)), [acts, area]);

  useEffect(() => {
    const element = root.current;
    if (element === null) return undefined;
    const made = drawChart(element, chart, {
      onMove: (atMs) => chartCursor.set(atMs),
      onArea: (next) => setArea((known) => (isSameArea(known, next) ? known : next)),
    });
    const sizes = new ResizeObserver(() => made.resize(element.clientWidth));
    sizes.observe(element);
    const endTheme = watchTheme(() => made.repaint());
    const endCursor = chartCursor.subscribe(() => made.moveTo(chartCursor.get()));
    setDrawn(made);
    return () => {
      endCursor();
      endTheme();
      sizes.disconnect();
      made.destroy();
    };
  }, [chart]);
  useEffect(() => {
    drawn?.show(
      points,
      marks.map(({ atMs }) => atMs),
    );
    drawn?.moveTo(chartCursor.get());
  }, [drawn, points, marks]);

  return (
    <div className={classes['chart']}>
      <Slider chart={chart} points={points} stepMs={stepMs}>
        <div ref={root} className={classes['canvas']} />
      </Slider>
      {area === null ? null : <MarkLinks marks={marks} area={area} hasTabStops={hasTabStops} />}
    </div>
  );
});

/** The chart for the keyboard: arrow keys move the cursor, and what is at it is read out. */
function Slider({
  chart,
  points,
  stepMs,
  children,
}: {
  readonly chart: ChartSpec;
  readonly points: readonly StatsPoint[];
  readonly stepMs: number;
  readonly children: React.ReactNode;
}) {
  const atMs = useSignal(chartCursor);
  const place = points.findIndex(({ at }) => Date.parse(at) === atMs);
  const point = points[place];
  const values = chart.series.map(({ name, label }) => {
    const value = point?.[name] ?? null;
    return `${label} ${value === null ? 'none' : valueText(chart, value)}`;
  });
  return (
    <div
      role="slider"
      tabIndex={0}
      className={classes['slider']}
      aria-label={`${chart.title}, in steps of ${duration(stepMs)}`}
      aria-valuemin={0}
      aria-valuemax={Math.max(0, points.length - 1)}
      aria-valuenow={place === -1 ? Math.max(0, points.length - 1) : place}
      aria-valuetext={
        point === undefined ? 'No time selected' : `${clockTime(point.at)}: ${values.join(', ')}`
      }
      onKeyDown={(event) => {
        const steps = points.map(({ at }) => Date.parse(at));
        const next = movedBy(event.key, atMs, steps);
        if (next === undefined) return;
        event.preventDefault();
        chartCursor.set(next);
      }}
      onBlur={() => chartCursor.set(null)}
    >
      {children}
    </div>
  );
}

function isSameArea(one: ChartArea | null, other: ChartArea): boolean {
  return (
    one !== null &&
    one.leftPx === other.leftPx &&
    one.widthPx === other.widthPx &&
    one.fromMs === other.fromMs &&
    one.toMs === other.toMs
  );
}
