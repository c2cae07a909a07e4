import {
  type Icon,
  IconCircleDashed,
  IconClockPause,
  IconHourglass,
  IconRefresh,
} from '@tabler/icons-react';
import type { CSSProperties } from 'react';
import { absolute, ago, duration, timeNear } from '~/lib/format.ts';
import { useDatabaseNow, useStaleSince } from '~/lib/live/use-database-now.ts';
import type { GrantFace, GrantView } from '~/resources/grant-view.ts';
import {
  drawLadder,
  fromNow,
  type LadderDrawing,
  type LadderState,
  lanesOf,
  type Rung,
  sideOf,
} from './ladder.ts';
import classes from './deadline-ladder.module.css';

/** The least width of a drawing of each size, the same as in the style sheet. */
const WIDTHS_PX = { roomy: 832, wide: 512, narrow: 290 } as const;
/** The width of a character in a label's name and in its time, and the gap between two labels. */
const NAME_PX = 6.2;
const TIME_PX = 6.6;
const APART_PX = 6;

const STATE_ICONS: Record<LadderState, Icon> = {
  held: IconRefresh,
  blocked: IconHourglass,
  held_back: IconHourglass,
  expired: IconClockPause,
  free: IconCircleDashed,
};

/**
 * A grant's deadlines to scale, with a mark for now that moves in the database's time; below it, what
 * happens at each. With stale data the mark stands still: nothing is claimed that is not known.
 */
export function DeadlineLadder({
  face,
  grant,
}: {
  readonly face: GrantFace;
  readonly grant: GrantView;
}) {
  const isStale = useStaleSince() !== null;
  const asOfMs = Date.parse(grant.asOf);
  const nowMs = Math.max(useDatabaseNow() ?? asOfMs, asOfMs);
  const drawing = drawLadder(face, grant, nowMs);
  const StateIcon = STATE_ICONS[drawing.state];
  return (
    <div className={classes['ladder']} data-state={drawing.state} data-stale={isStale || undefined}>
      <p className={classes['headline']}>
        <StateIcon size={16} aria-hidden />
        <span>{isStale ? `As far as is known: ${lower(drawing.headline)}` : drawing.headline}</span>
        <span className={classes['renewed']} key={grant.renewedAt}>
          {beganText(grant, nowMs)}
        </span>
      </p>
      {drawing.state === 'free' ? null : (
        // What is free has no deadlines.
        <>
          <Drawing drawing={drawing} nowMs={nowMs} />
          <RungTable drawing={drawing} nowMs={nowMs} />
        </>
      )}
    </div>
  );
}

function lower(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

function beganText(grant: GrantView, nowMs: number): string {
  if (grant.releasedAt !== null) return `released ${ago(nowMs - Date.parse(grant.releasedAt))}`;
  const renewedMs = Date.parse(grant.renewedAt);
  const isFirst = grant.renewedAt === grant.grantedAt;
  return `${isFirst ? 'granted' : 'renewed'} ${ago(nowMs - renewedMs)}`;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(3)}%`;
}

/** Hidden from screen readers: {@link RungTable} says the same in words. */
function Drawing({ drawing, nowMs }: { readonly drawing: LadderDrawing; readonly nowMs: number }) {
  const { rungs, zones, now } = drawing;
  const roomy = labelLanes(drawing, WIDTHS_PX.roomy);
  const wide = labelLanes(drawing, WIDTHS_PX.wide);
  const narrow = labelLanes(drawing, WIDTHS_PX.narrow);
  const lanes = {
    '--lanes-roomy': Math.max(...roomy) + 1,
    '--lanes-wide': Math.max(...wide) + 1,
    '--lanes-narrow': Math.max(...narrow) + 1,
  } as CSSProperties;
  return (
    <div className={classes['drawing']} style={lanes} aria-hidden>
      <div className={classes['rail']}>
        {zones.map(({ tone, from, to }) => (
          <span
            key={tone}
            className={classes['zone']}
            data-tone={tone}
            style={{ left: percent(from), width: percent(to - from) }}
          />
        ))}
        {rungs.map(({ kind, share }) => (
          <span
            key={kind}
            className={classes['tick']}
            data-kind={kind}
            style={{ left: percent(share) }}
          />
        ))}
        {now === null ? null : (
          <span className={classes['now']} style={{ left: percent(now) }}>
            <span className={classes['now-label']} data-end={now > 0.9 || undefined}>
              now
            </span>
          </span>
        )}
      </div>
      {rungs.map(({ kind, name, share, atMs }, index) => (
        <span
          key={kind}
          className={classes['label']}
          data-side={sideOf(share)}
          style={
            {
              left: percent(share),
              '--lane-roomy': roomy[index],
              '--lane-wide': wide[index],
              '--lane-narrow': narrow[index],
            } as CSSProperties
          }
        >
          <span>{name}</span>
          {now === null ? null : (
            <span className={classes['label-time']}>{fromNow(atMs, nowMs)}</span>
          )}
        </span>
      ))}
    </div>
  );
}

/** The labels' lanes at a width. A label has room for the longest time that it will show: it never jumps. */
function labelLanes({ rungs, startMs }: LadderDrawing, widthPx: number): number[] {
  const endMs = rungs.at(-1)?.atMs ?? startMs;
  const timePx = fromNow(endMs - 1, startMs).length * TIME_PX;
  return lanesOf(
    rungs.map(({ name, share }) => ({
      at: share,
      length: (Math.max(name.length * NAME_PX, timePx) + APART_PX) / widthPx,
    })),
  );
}

function RungTable({
  drawing: { rungs, now, startMs },
  nowMs,
}: {
  readonly drawing: LadderDrawing;
  readonly nowMs: number;
}) {
  return (
    <table className={classes['rungs']}>
      <caption className="visually-hidden">Deadlines, and what happens at each</caption>
      <thead>
        <tr>
          <th scope="col">Deadline</th>
          <th scope="col">After</th>
          <th scope="col">At</th>
          <th scope="col">What happens</th>
        </tr>
      </thead>
      <tbody>
        {rungs.map((rung) => (
          <RungRow
            key={rung.kind}
            rung={rung}
            startMs={startMs}
            nowMs={now === null ? null : nowMs}
          />
        ))}
      </tbody>
    </table>
  );
}

function RungRow({
  rung: { kind, name, atMs, what },
  startMs,
  nowMs,
}: {
  readonly rung: Rung;
  readonly startMs: number;
  readonly nowMs: number | null;
}) {
  const at = new Date(atMs).toISOString();
  const isPast = nowMs !== null && nowMs >= atMs;
  return (
    <tr data-past={isPast || undefined}>
      <th scope="row">
        <span className={classes['swatch']} data-kind={kind} aria-hidden />
        {name}
      </th>
      <td className={classes['time']}>{duration(atMs - startMs)}</td>
      <td className={classes['time']}>
        <time dateTime={at} title={absolute(at)}>
          {timeNear(at, new Date(nowMs ?? startMs).toISOString())}
        </time>
        {nowMs === null ? null : <span className={classes['in']}>{fromNow(atMs, nowMs)}</span>}
      </td>
      <td className={classes['what']}>{what}</td>
    </tr>
  );
}
