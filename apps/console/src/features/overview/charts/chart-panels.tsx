import { SegmentedControl, Skeleton } from '@mantine/core';
import dynamic from 'next/dynamic';
import { memo, useState } from 'react';
import type { StatsOverview, StatsPoint } from '@leasehold/api/contract';
import { choiceParam, useQueryState } from '~/lib/address.ts';
import { clockTime, dayTime, duration } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';
import { useSignal } from '~/lib/signal.ts';
import type { AuditEntry } from '~/resources/audit.ts';
import { Panel } from '~/ui/page.tsx';
import { Link } from '~/ui/text.tsx';
import { eventsHref, windowText } from '../overview-texts.ts';
import { RowsLink } from '../tiles.tsx';
import {
  chartCursor,
  CHARTS,
  type ChartSpec,
  finishedSteps,
  greatestOf,
  isSameSteps,
  numberLength,
  numberText,
} from './chart-series.ts';
import classes from './charts.module.css';

const ChartTable = dynamic(() => import('./time-chart.tsx').then((module) => module.ChartTable));

// Charts are heavy, and nothing above them waits for them.
const TimeChart = dynamic(() => import('./time-chart.tsx').then((module) => module.TimeChart), {
  ssr: false,
  loading: () => <Skeleton height={168} aria-busy="true" />,
});

/** What happened over time, as charts or as tables. What there was nothing of has no chart. */
export const ChartPanels = memo(function ChartPanels({
  points,
  stepMs,
  windowMinutes,
  totals,
  before,
  acts,
  markedFrom,
}: Pick<StatsOverview, 'stepMs' | 'windowMinutes' | 'totals' | 'before'> & {
  /** The steps that are over. */
  readonly points: readonly StatsPoint[];
  readonly acts: readonly AuditEntry[];
  /** The first moment of which every act is marked; null: all of the window are. */
  readonly markedFrom: string | null;
}) {
  const [view, setView] = useQueryState(
    'view',
    choiceParam(['charts', 'tables'] as const).withDefault('charts'),
  );
  const drawn = CHARTS.filter((chart) => greatestOf(chart, points) !== null);
  const empty = CHARTS.filter((chart) => !drawn.includes(chart));
  return (
    <section aria-label="Over time" className={classes['over-time']}>
      {drawn.length === 0 ? null : (
        <SegmentedControl
          className={classes['view'] ?? ''}
          aria-label="Show as"
          value={view}
          onChange={(value) => setView(value === 'tables' ? 'tables' : 'charts')}
          data={[
            { value: 'charts', label: 'Charts' },
            { value: 'tables', label: 'Tables' },
          ]}
        />
      )}
      {drawn.length === 0 ? null : (
        <div className={classes['charts']} data-count={drawn.length}>
          {drawn.map((chart, place) => (
            <Panel
              key={chart.id}
              title={chart.title}
              meta={<LegendTime {...{ points, stepMs, windowMinutes }} />}
            >
              {view === 'charts' ? (
                <>
                  <TimeChart {...{ chart, points, stepMs, acts }} hasTabStops={place === 0} />
                  <Legend {...{ chart, points, totals, before, windowMinutes }} />
                </>
              ) : (
                <ChartTable chart={chart} points={points} />
              )}
            </Panel>
          ))}
        </div>
      )}
      {markedFrom === null || drawn.length === 0 || view !== 'charts' ? null : (
        <p className={classes['nothing']}>
          Charts mark what people did since {dayTime(markedFrom)} UTC. The{' '}
          <Link href={routes.audit()}>audit</Link> has what was before.
        </p>
      )}
      {empty.length === 0 ? null : (
        <p className={classes['nothing']}>
          No {listWords(empty.map(({ nothing }) => nothing))} {windowText(windowMinutes)}.
        </p>
      )}
    </section>
  );
});

/** `grants, waits or handovers` */
function listWords(words: readonly string[]): string {
  return words.length < 2
    ? words.join('')
    : `${words.slice(0, -1).join(', ')} or ${words.at(-1) ?? ''}`;
}

/** The step that the cursor is at. */
function usePointed(points: readonly StatsPoint[]): StatsPoint | undefined {
  const atMs = useSignal(chartCursor);
  return atMs === null ? undefined : points.find(({ at }) => Date.parse(at) === atMs);
}

/** What time the numbers below the chart are of: the whole window, or the step at the cursor. */
function LegendTime({
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
function Legend({
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

/** The steps that are over: the same list until a number of them changes, so that nothing is drawn without need. */
export function useSteps(
  stats: Pick<StatsOverview, 'series' | 'stepMs' | 'asOf'>,
): readonly StatsPoint[] {
  const next = finishedSteps(stats);
  const [known, setKnown] = useState<readonly StatsPoint[]>(next);
  if (isSameSteps(known, next)) return known;
  setKnown(next);
  return next;
}
