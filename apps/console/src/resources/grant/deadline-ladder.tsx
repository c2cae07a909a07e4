import { sayEnd } from '@leasehold/keys-core';
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

/** What the drawing of a grant's deadlines shows. Pure: time is passed in. */
type RungKind = 'renew' | 'soft' | 'hard' | 'lose' | 'expiry';

/** A moment at which something happens unless the grant is renewed before. */
interface Rung {
  readonly kind: RungKind;
  readonly name: string;
  readonly atMs: number;
  /** Its place on the drawing, from 0 to 1. */
  readonly share: number;
  readonly what: string;
}

/** `blocked`: it will not be renewed. `held_back`: ended by force, but its holder may still act. */
type LadderState = 'held' | 'blocked' | 'held_back' | 'expired' | 'free';

interface Zone {
  readonly tone: 'good' | 'info' | 'warn' | 'bad';
  readonly from: number;
  readonly to: number;
}

interface LadderDrawing {
  readonly state: LadderState;
  readonly headline: string;
  readonly startMs: number;
  readonly rungs: readonly Rung[];
  readonly zones: readonly Zone[];
  /** The place of now on the drawing; null while nothing runs. */
  readonly now: number | null;
}

/** The whole drawing, at a moment of the database's clock. */
export function drawLadder(face: GrantFace, grant: GrantView, nowMs: number): LadderDrawing {
  const state = stateOf(grant, nowMs);
  const { rungs, zones, startMs, lengthMs } = scaleOf(face, grant, state);
  const isRunning = state !== 'free' && state !== 'expired';
  return {
    state,
    headline: headlineOf({ face, grant, state, rungs, nowMs }),
    startMs,
    rungs,
    zones,
    now: isRunning ? share(nowMs - startMs, lengthMs) : null,
  };
}

function stateOf(grant: GrantView, nowMs: number): LadderState {
  if (grant.stopsBy !== null && nowMs < Date.parse(grant.stopsBy)) return 'held_back';
  if (grant.endReason === 'expired') return 'expired';
  if (grant.endReason !== null || grant.releasedAt !== null) return 'free';
  if (nowMs >= Date.parse(grant.expiresAt)) return 'expired';
  return grant.renewable ? 'held' : 'blocked';
}

/** Counted back from the expiry, as holders do: a first grant may have begun with less than its full TTL. */
function scaleOf(
  face: GrantFace,
  grant: GrantView,
  state: LadderState,
): Pick<LadderDrawing, 'rungs' | 'zones' | 'startMs'> & { readonly lengthMs: number } {
  const { renewAfterMs, softAfterMs, hardAfterMs, ttlMs } = grant.ladder;
  const startMs = Date.parse(grant.expiresAt) - ttlMs;
  const hasTwoStops = softAfterMs !== hardAfterMs;
  const stops: readonly (readonly [RungKind, number])[] = hasTwoStops
    ? [
        ['soft', softAfterMs],
        ['hard', hardAfterMs],
      ]
    : [['lose', hardAfterMs]];
  const all: readonly (readonly [RungKind, number])[] = [
    ['renew', renewAfterMs],
    ...stops,
    ['expiry', ttlMs],
  ];
  const rungs = all.map(([kind, afterMs]) => ({
    kind,
    name: NAMES[kind],
    atMs: startMs + afterMs,
    share: share(afterMs, ttlMs),
    what: whatHappens(face, kind, state),
  }));
  const tones = hasTwoStops ? TONES_OF_TWO_STOPS : TONES_OF_ONE_STOP;
  const edges = [0, ...rungs.map((rung) => rung.share)];
  const zones = tones.map((tone, index) => ({
    tone,
    from: edges[index] ?? 1,
    to: edges[index + 1] ?? 1,
  }));
  return { rungs, zones, startMs, lengthMs: ttlMs };
}

const TONES_OF_TWO_STOPS = ['good', 'info', 'warn', 'bad'] as const;
const TONES_OF_ONE_STOP = ['good', 'info', 'bad'] as const;

const NAMES: Record<RungKind, string> = {
  renew: 'Renew',
  soft: 'Soft stop',
  hard: 'Hard stop',
  lose: 'Give up',
  expiry: 'Expiry',
};

function share(partMs: number, wholeMs: number): number {
  return wholeMs <= 0 ? 1 : Math.min(1, Math.max(0, partMs / wholeMs));
}

const HAPPENS: Record<GrantFace, Record<RungKind, string>> = {
  key: {
    renew: 'The drone asks for a renewal, until it is answered. The answer resets all deadlines.',
    soft: 'Not renewed by now: the backend gets SIGTERM.',
    hard: 'What is left of the backend gets SIGKILL, by the drone’s own clock.',
    lose: 'Not renewed by now: the backend is stopped.',
    expiry: 'The next caller is granted the key.',
  },
  lease: {
    renew: 'The service asks for a renewal, until it is answered. The answer resets all deadlines.',
    soft: 'Not renewed by now: the service stops.',
    hard: 'The service has stopped, by its own clock.',
    lose: 'Not renewed by now: the service counts the lease as lost and stops, by its own clock.',
    expiry: 'The first waiter is granted the lease.',
  },
  environment: {
    renew:
      'A holder that needs it for longer asks for a renewal. Most do not: they need it for a moment.',
    soft: 'Not renewed by now: the holder must not begin anything.',
    hard: 'The holder must not act any more.',
    lose: 'Not renewed by now: the holder must not act any more.',
    expiry: 'The next caller is granted the environment.',
  },
};

const REFUSED: Record<GrantFace, string> = {
  key: 'The renewal is refused: the backend gets SIGTERM then, if it has not had it yet.',
  lease: 'The renewal is refused: the service is told to stop.',
  environment: 'The renewal is refused: the holder is told to stop.',
};

function whatHappens(face: GrantFace, kind: RungKind, state: LadderState): string {
  if (state === 'held_back') return HELD_BACK[kind];
  if (kind === 'renew' && state === 'blocked') return REFUSED[face];
  return HAPPENS[face][kind];
}

const HELD_BACK: Record<RungKind, string> = {
  renew: 'No renewal is answered any more.',
  soft: 'The backend was sent SIGKILL, without SIGTERM before it.',
  hard: 'A drone that could not be reached kills the backend by its own clock.',
  lose: 'The holder stops by its own clock.',
  expiry: 'The key can be granted again, even if nobody has reported that the backend is gone.',
};

interface Moment {
  readonly face: GrantFace;
  readonly grant: GrantView;
  readonly state: LadderState;
  readonly rungs: readonly Rung[];
  readonly nowMs: number;
}

const HOLDS: Record<GrantFace, string> = {
  key: 'The drone',
  lease: 'The service',
  environment: 'The holder',
};

function headlineOf(moment: Moment): string {
  const { face, grant, state, nowMs } = moment;
  switch (state) {
    case 'free':
      return freeHeadline(face, grant);
    case 'expired': {
      const forMs = nowMs - Date.parse(grant.expiresAt);
      return `Expired ${duration(forMs)} ago: not renewed in time, and nobody has asked for it since.`;
    }
    case 'held_back': {
      const forMs = Date.parse(grant.stopsBy ?? grant.expiresAt) - nowMs;
      return `Ended by force. Held back for ${duration(forMs)} at most, until its backend is known to be gone.`;
    }
    case 'blocked': {
      const leftMs = Date.parse(grant.expiresAt) - nowMs;
      return `Renewal blocked: expires in ${duration(leftMs)} at worst.`;
    }
    case 'held':
      return heldHeadline(moment);
  }
}

function freeHeadline(face: GrantFace, { endReason, backendEnd }: GrantView): string {
  if (endReason === 'revoked') return 'Free: it was revoked by force.';
  if (backendEnd?.hasFailed === true) return `Free: its backend failed, ${sayEnd(backendEnd)}.`;
  if (backendEnd?.reason === 'refused') return `Free: ${sayEnd(backendEnd)}.`;
  return `Free: nobody holds this ${face}.`;
}

function heldHeadline({ face, rungs, nowMs }: Moment): string {
  const next = rungs.find(({ atMs }) => nowMs < atMs);
  const inText = next === undefined ? '0 s' : duration(next.atMs - nowMs);
  switch (next?.kind) {
    case 'renew':
      return face === 'environment'
        ? `Held. May be renewed in ${inText}.`
        : `Held. Next renewal in ${inText}.`;
    case 'soft':
      return `Renewal is due. ${HOLDS[face]} asks until it is answered. Soft stop in ${inText}.`;
    case 'lose':
      return `Renewal is due. ${HOLDS[face]} gives up in ${inText} unless it is answered.`;
    case 'hard':
      return `Not renewed: the backend is being stopped. Hard stop in ${inText}.`;
    case 'expiry':
    case undefined:
      return `Not renewed: ${HOLDS[face].toLowerCase()} has stopped. Free in ${inText}.`;
  }
}

/** `in 12 s`, `4 s ago`: a moment, relative to now. */
export function fromNow(atMs: number, nowMs: number): string {
  return atMs > nowMs ? `in ${duration(atMs - nowMs)}` : `${duration(nowMs - atMs)} ago`;
}

/** Beyond these a label stands beside its mark, not below it. */
const START_SHARE = 0.07;
const END_SHARE = 0.93;

/** Where a label stands: below its mark, or beside it where the drawing begins and ends. */
function sideOf(at: number): 'start' | 'middle' | 'end' {
  if (at > END_SHARE) return 'end';
  return at < START_SHARE ? 'start' : 'middle';
}

/** How much of a label is to the left of its mark. */
const LEFT_OF_MARK = { start: 0, middle: 0.5, end: 1 } as const;

/**
 * The row of each label below the drawing, so that no two overlap: a label at `at` takes `length`,
 * both as shares of the whole width.
 */
export function lanesOf(
  labels: readonly { readonly at: number; readonly length: number }[],
): number[] {
  const endOfLane: number[] = [];
  return labels.map(({ at, length }) => {
    const from = at - length * LEFT_OF_MARK[sideOf(at)];
    const free = endOfLane.findIndex((end) => end <= from);
    const lane = free === -1 ? endOfLane.length : free;
    endOfLane[lane] = from + length;
    return lane;
  });
}
