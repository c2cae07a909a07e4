import type { StatsOverview, StatsPoint } from '@leasehold/api/contract';
import { clockTime, duration } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';
import { useSignal } from '~/lib/signal.ts';
import { eventsHref } from '../event-links.ts';
import { RowsLink } from '../rows-link.tsx';
import { windowText } from '../windows.ts';
import { chartCursor } from './chart-cursor.ts';
import { type ChartSpec, numberLength, numberText } from './chart-series.ts';
import classes from './charts.module.css';

/** The step that the cursor is at. */
function usePointed(points: readonly StatsPoint[]): StatsPoint | undefined {
  const atMs = useSignal(chartCursor);
  return atMs === null ? undefined : points.find(({ at }) => Date.parse(at) === atMs);
}

/** What time the numbers below the chart are of: the whole window, or the step at the cursor. */
export function LegendTime({
  points,
  stepMs,
  windowMinutes,
}: {
  readonly points: readonly StatsPoint[];
  readonly stepMs: number;
  readonly windowMinutes: number;
}) {
  const pointed = usePointed(points);
  return (
    <span className={`${classes['time'] ?? ''} small-print`}>
      <span data-unseen={pointed === undefined ? undefined : true}>
        {windowText(windowMinutes)}, each point {duration(stepMs)}
      </span>
      {pointed === undefined ? null : (
        <span>
          {clockTime(pointed.at)} UTC, {duration(stepMs)}
        </span>
      )}
    </span>
  );
}

/**
 * The lines as they are drawn, so that they can be told apart without their colours, each with its number: that
 * at the cursor, or that of the whole window beside that of the time before. Nothing of it covers a line.
 */
export function Legend({
  chart,
  points,
  totals,
  before,
  windowMinutes,
}: {
  readonly chart: ChartSpec;
  readonly points: readonly StatsPoint[];
  readonly totals: StatsOverview['totals'];
  /** Of the time before, which is as long; null where it is not kept. */
  readonly before: StatsOverview['before'];
  readonly windowMinutes: number;
}) {
  const pointed = usePointed(points);
  // As much room for each number as any of them takes, so that nothing moves with the cursor.
  const minWidth = `${String(numberLength(chart, [totals, ...points]))}ch`;
  return (
    <ul className={classes['legend']} aria-label={`${chart.title}, numbers`}>
      {chart.series.map(({ name, label, color, dash, kinds }) => {
        const text = numberText(chart, (pointed ?? totals)[name]);
        const href = pointed === undefined ? rowsHref({ name, kinds }, windowMinutes) : undefined;
        return (
          <li key={name}>
            <svg width="22" height="6" aria-hidden>
              <path
                d="M0 3h22"
                stroke={`var(${color})`}
                strokeWidth="2"
                strokeDasharray={dash?.join(' ') ?? 'none'}
              />
            </svg>
            {label}{' '}
            <span className={classes['number']} style={{ minWidth }}>
              {href !== undefined ? (
                <RowsLink href={href} aria-label={`${text} ${label}`}>
                  {text}
                </RowsLink>
              ) : (
                <strong>{text}</strong>
              )}
            </span>
            {before === null ? null : (
              <span data-unseen={pointed === undefined ? undefined : true}>
                before {numberText(chart, before[name])}
              </span>
            )}
          </li>
        );
      })}
    </ul>
  );
}

/** The page with the rows that a series counts; undefined for a series without rows. */
function rowsHref(
  { name, kinds }: { readonly name: string; readonly kinds: readonly string[] | undefined },
  windowMinutes: number,
): string | undefined {
  if (name === 'denials') return routes.refusals({ range: `${String(windowMinutes)}m` });
  return kinds === undefined ? undefined : eventsHref(kinds, windowMinutes);
}
