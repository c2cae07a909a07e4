/** Draws one chart on a canvas. Colours are those of the theme at the moment of drawing. */
import type { StatsPoint } from '@leasehold/api/contract';
import uPlot from 'uplot';
import { axisTicks, clockText, clockTicks, tickText } from './chart-axis.ts';
import { greatestOf, isolatedPlaces, type ChartSpec } from './chart-series.ts';

const HEIGHT_PX = 168;
const LINE_PX = 1.75;
const POINT_PX = 6;
const AXIS_X_PX = 26;
const PAD_TOP_PX = 18;
/** Half of a time of day, so that the last one is inside. */
const PAD_RIGHT_PX = 20;
const CHARACTER_PX = 7;
const LABEL_GAP_PX = 14;
const FONT = '12px "IBM Plex Sans", system-ui, sans-serif';
const OUTSIDE_PX = -10;

/** Where the area of the lines is, in CSS pixels of the chart, and what time it spans. */
export interface ChartArea {
  readonly leftPx: number;
  readonly widthPx: number;
  readonly fromMs: number;
  readonly toMs: number;
}

export interface DrawnChart {
  /** Draws these steps, and lines at these times. */
  show(points: readonly StatsPoint[], markedMs: readonly number[]): void;
  resize(widthPx: number): void;
  /** Puts the cursor at the step that begins then, without telling anybody. */
  moveTo(atMs: number | null): void;
  /** Draws all again, in the colours of this moment. */
  repaint(): void;
  destroy(): void;
}

export function drawChart(
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
          font: FONT,
          stroke: () => ink('--mantine-color-dimmed'),
          grid: { show: false },
          ticks: { size: 4, width: 1, stroke: () => ink('--line-strong') },
          splits: ({ width }, _axis, from, to) => clockTicks(from, to, width),
          values: (_plot, splits) => splits.map(clockText),
        },
        {
          size: (_plot, labels) => labelsPx(labels),
          font: FONT,
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
