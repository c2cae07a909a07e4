/** A run as a picture: its faults as bars, and below them the replies of each second. */
import { escaped } from './escaped.ts';
import { kindOf, type RunFigures } from './figures.ts';

const WIDTH = 1_100;
const LABEL_WIDTH = 330;
const ROW_HEIGHT = 15;
const CHART_HEIGHT = 90;
const TICK_S = 15;

export function timelineOf(run: RunFigures): string {
  const kinds = [...new Set(run.faults.map(kindOf))].sort();
  const x = (atS: number): number =>
    LABEL_WIDTH + (Math.min(atS, run.lengthS) / run.lengthS) * (WIDTH - LABEL_WIDTH);
  const barsHeight = kinds.length * ROW_HEIGHT;
  const height = barsHeight + CHART_HEIGHT + 30;
  const labels = kinds.map(
    (kind, row) =>
      `<text x="${String(LABEL_WIDTH - 6)}" y="${String(row * ROW_HEIGHT + 11)}" text-anchor="end">${escaped(kind)}</text>`,
  );
  const bars = run.faults.map((fault) => {
    const y = kinds.indexOf(kindOf(fault)) * ROW_HEIGHT + 2;
    return `${bar(x(fault.fromS), x(fault.untilS), y, 'lasts')}${bar(x(fault.untilS), x(fault.recoveredS), y, 'felt')}`;
  });
  const marks = run.violations.map(
    ({ atS }) =>
      `<line class="broken" x1="${x(atS).toFixed(1)}" x2="${x(atS).toFixed(1)}" y1="0" y2="${String(height - 20)}"/>`,
  );
  return `<svg viewBox="0 0 ${String(WIDTH)} ${String(height)}" role="img" aria-label="Faults and replies over the seconds of the run">
${[...labels, ...bars, ...marks, ticks(run, x, height), replies(run, x, barsHeight)].join('\n')}
</svg>`;
}

function bar(from: number, until: number, y: number, look: string): string {
  const width = Math.max(1, until - from).toFixed(1);
  return `<rect class="${look}" x="${from.toFixed(1)}" y="${String(y)}" width="${width}" height="${String(ROW_HEIGHT - 4)}"/>`;
}

function ticks(run: RunFigures, x: (atS: number) => number, height: number): string {
  const places = Array.from({ length: Math.floor(run.lengthS / TICK_S) + 1 }, (_, i) => i * TICK_S);
  return places
    .map(
      (atS) => `<text x="${x(atS).toFixed(1)}" y="${String(height - 4)}">${String(atS)} s</text>`,
    )
    .join('');
}

function replies(run: RunFigures, x: (atS: number) => number, top: number): string {
  const most = Math.max(1, ...run.repliesPerS);
  const points = run.repliesPerS.map((count, second) => {
    const y = top + 8 + (1 - count / most) * CHART_HEIGHT;
    return `${x(second + 0.5).toFixed(1)},${y.toFixed(1)}`;
  });
  return `<polyline class="replies" points="${points.join(' ')}"/>
<text x="${String(LABEL_WIDTH - 6)}" y="${String(top + 18)}" text-anchor="end">replies per second, ${String(most)} at most</text>`;
}
