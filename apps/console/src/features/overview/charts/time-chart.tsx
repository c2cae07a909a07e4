import 'uplot/dist/uPlot.min.css';
import { ScrollArea, Table } from '@mantine/core';
import { memo, useEffect, useMemo, useRef, useState } from 'react';
import uPlot from 'uplot';
import type { StatsPoint } from '@leasehold/api/contract';
import { absolute, clockTime, countText, duration } from '~/lib/format.ts';
import { useSignal } from '~/lib/signal.ts';
import { actText, type AuditEntry } from '~/resources/audit.ts';
import { Link, VisibleText } from '~/ui/text.tsx';
import { Tip } from '~/ui/tip.tsx';
import {
  type ActMark,
  axisTicks,
  chartCursor,
  type ChartSpec,
  clockText,
  clockTicks,
  greatestOf,
  isolatedPlaces,
  marksOf,
  movedBy,
  tickText,
  valueText,
} from './chart-series.ts';
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

/** How many acts of one mark are written out. */
const TOLD_MAX = 3;

/** Operator actions, above the lines: each mark says it, and links to it in the audit. */
function MarkLinks({
  marks,
  area,
  hasTabStops,
}: {
  readonly marks: readonly ActMark[];
  readonly area: ChartArea;
  readonly hasTabStops: boolean;
}) {
  if (marks.length === 0) return null;
  const { leftPx, widthPx, fromMs, toMs } = area;
  return (
    <ul className={classes['marks']} aria-label="Operator actions">
      {marks.map(({ acts, atMs, href }) => {
        const left = leftPx + ((atMs - fromMs) / (toMs - fromMs)) * widthPx;
        const told = acts.slice(0, TOLD_MAX).map((act) => actText(act));
        const more = acts.length - told.length;
        if (more > 0) told.push(`and ${countText(more, 'other')}`);
        return (
          <li key={`${String(atMs)} ${String(acts.length)}`} style={{ left }}>
            <Tip isDescribed label={<MarkTip told={told} acts={acts} />}>
              <Link href={href} aria-label={told.join('; ')} tabIndex={hasTabStops ? 0 : -1} />
            </Tip>
          </li>
        );
      })}
    </ul>
  );
}

function MarkTip({
  told,
  acts,
}: {
  readonly told: readonly string[];
  readonly acts: ActMark['acts'];
}) {
  const [only] = acts;
  return (
    <>
      {told.map((text, index) => (
        <div key={index}>{text}</div>
      ))}
      {only === undefined ? null : <div className="mono">{absolute(only.at)}</div>}
      {acts.length === 1 && only?.reason != null ? (
        <div>
          <VisibleText>{`“${only.reason}”`}</VisibleText>
        </div>
      ) : null}
    </>
  );
}

// Draws one chart on a canvas. Colours are those of the theme at the moment of drawing.

const HEIGHT_PX = 168;
const LINE_PX = 1.75;
const POINT_PX = 6;
const AXIS_X_PX = 26;
const PAD_TOP_PX = 18;
/** Half of a time of day, so that the last one is inside. */
const PAD_RIGHT_PX = 20;
const CHARACTER_PX = 7;
const LABEL_GAP_PX = 14;
const OUTSIDE_PX = -10;

/** Where the area of the lines is, in CSS pixels of the chart, and what time it spans. */
interface ChartArea {
  readonly leftPx: number;
  readonly widthPx: number;
  readonly fromMs: number;
  readonly toMs: number;
}

interface DrawnChart {
  /** Draws these steps, and lines at these times. */
  show(points: readonly StatsPoint[], markedMs: readonly number[]): void;
  resize(widthPx: number): void;
  /** Puts the cursor at the step that begins then, without telling anybody. */
  moveTo(atMs: number | null): void;
  /** Draws all again, in the colours of this moment. */
  repaint(): void;
  destroy(): void;
}

function drawChart(
  root: HTMLElement,
  spec: ChartSpec,
  told: {
    readonly onMove: (atMs: number | null) => void;
    readonly onArea: (area: ChartArea) => void;
  },
): DrawnChart {
  let ticks: number[] = [0, 1];
  let marked: readonly number[] = [];
  const ink = (name: string): string => inkOf(root, name);
  const font = `12px ${getComputedStyle(root).fontFamily}`;
  const plot = new uPlot(
    {
      width: Math.max(1, root.clientWidth),
      height: HEIGHT_PX,
      ms: 1,
      padding: [PAD_TOP_PX, PAD_RIGHT_PX, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        drag: { x: false, y: false, setScale: false },
        points: {
          size: POINT_PX + 2,
          width: 0,
          fill: (_plot, place) => ink(spec.series[place - 1]?.color ?? '--mantine-color-text'),
        },
      },
      scales: {
        x: { time: false, range: (_plot, from, to) => [from, Math.max(to, from + 1)] },
        y: { range: () => [0, ticks.at(-1) ?? 1] },
      },
      axes: [
        {
          size: AXIS_X_PX,
          font,
          stroke: () => ink('--mantine-color-dimmed'),
          grid: { show: false },
          ticks: { size: 4, width: 1, stroke: () => ink('--line-strong') },
          splits: ({ width }, _axis, from, to) => clockTicks(from, to, width),
          values: (_plot, splits) => splits.map(clockText),
        },
        {
          size: (_plot, labels) => labelsPx(labels),
          font,
          stroke: () => ink('--mantine-color-dimmed'),
          grid: { width: 1, dash: [4, 4], stroke: () => ink('--line') },
          ticks: { show: false },
          splits: () => ticks,
          values: (_plot, splits) => splits.map((value) => tickText(value, spec.unit)),
        },
      ],
      series: [
        {},
        ...spec.series.map(({ color, dash }) => ({
          stroke: () => ink(color),
          width: LINE_PX,
          ...(dash === undefined ? {} : { dash: [...dash] }),
          points: {
            show: false,
            size: POINT_PX,
            width: 0,
            stroke: () => ink(color),
            fill: () => ink(color),
            filter: alonePlaces,
          },
        })),
      ],
      hooks: {
        drawAxes: [(drawn) => drawMarks(drawn, marked, ink('--tone-calm'))],
        draw: [(drawn) => told.onArea(areaOf(drawn))],
        setCursor: [({ cursor, data }) => told.onMove(data[0][cursor.idx ?? -1] ?? null)],
      },
    },
    [[], ...spec.series.map(() => [])],
    root,
  );
  return {
    show(points, markedMs) {
      ticks = axisTicks(greatestOf(spec, points) ?? 1, spec.unit);
      marked = markedMs;
      plot.setData([
        points.map(({ at }) => Date.parse(at)),
        ...spec.series.map(({ name }) => points.map((point) => point[name])),
      ]);
    },
    resize(widthPx) {
      if (widthPx <= 0 || widthPx === plot.width) return;
      plot.setSize({ width: widthPx, height: HEIGHT_PX });
    },
    moveTo(atMs) {
      const left = atMs === null ? OUTSIDE_PX : plot.valToPos(atMs, 'x');
      plot.setCursor({ left, top: atMs === null ? OUTSIDE_PX : 1 }, false);
    },
    repaint: () => plot.redraw(false),
    destroy: () => plot.destroy(),
  };
}

function alonePlaces({ data }: uPlot, series: number): number[] | null {
  const places = isolatedPlaces([...(data[series] ?? [])]);
  return places.length === 0 ? null : places;
}

function labelsPx(labels: readonly string[] | null): number {
  const longest = Math.max(2, ...(labels ?? []).map(({ length }) => length));
  return longest * CHARACTER_PX + LABEL_GAP_PX;
}

function areaOf(plot: uPlot): ChartArea {
  const { left, width } = plot.bbox;
  return {
    leftPx: left / uPlot.pxRatio,
    widthPx: width / uPlot.pxRatio,
    fromMs: plot.scales['x']?.min ?? 0,
    toMs: plot.scales['x']?.max ?? 1,
  };
}

function drawMarks(plot: uPlot, marked: readonly number[], color: string): void {
  const { ctx } = plot;
  const { top, height } = plot.bbox;
  ctx.save();
  ctx.strokeStyle = color;
  ctx.lineWidth = uPlot.pxRatio;
  ctx.setLineDash([2 * uPlot.pxRatio, 2 * uPlot.pxRatio]);
  for (const atMs of marked) {
    const x = Math.round(plot.valToPos(atMs, 'x', true));
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + height);
    ctx.stroke();
  }
  ctx.restore();
}

/** A colour of the theme. Where the person's own colours are forced, a canvas must use them by itself. */
function inkOf(root: HTMLElement, name: string): string {
  if (matchMedia('(forced-colors: active)').matches) {
    return name.startsWith('--tone') ? 'CanvasText' : 'GrayText';
  }
  return getComputedStyle(root).getPropertyValue(name).trim();
}

/** Calls back whenever the colours of the page change: another scheme, or forced colours. @returns what ends it. */
function watchTheme(onChange: () => void): () => void {
  const scheme = new MutationObserver(onChange);
  scheme.observe(document.documentElement, { attributeFilter: ['data-mantine-color-scheme'] });
  const forced = matchMedia('(forced-colors: active)');
  forced.addEventListener('change', onChange);
  return () => {
    scheme.disconnect();
    forced.removeEventListener('change', onChange);
  };
}

/** The numbers of a chart, newest first. */
export function ChartTable({
  chart,
  points,
}: {
  readonly chart: ChartSpec;
  readonly points: readonly StatsPoint[];
}) {
  return (
    <ScrollArea
      h={204}
      viewportProps={{ tabIndex: 0, role: 'region', 'aria-label': `${chart.title}, in numbers` }}
    >
      <Table stickyHeader>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>From</Table.Th>
            {chart.series.map(({ name, label }) => (
              <Table.Th key={name} ta="right">
                {label}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {points.toReversed().map((point) => (
            <Table.Tr key={point.at}>
              <Table.Td className="mono">{clockTime(point.at)}</Table.Td>
              {chart.series.map(({ name }) => {
                const value = point[name];
                return (
                  <Table.Td key={name} ta="right">
                    {value === null ? '–' : valueText(chart, value)}
                  </Table.Td>
                );
              })}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </ScrollArea>
  );
}
