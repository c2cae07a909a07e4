import { useMemo } from 'react';
import { windowsFrom } from '@leasehold/keys-core/freeze-windows';
import { absolute, count } from '~/lib/format.ts';
import { useAtDatabaseNow } from '~/lib/live/use-database-now.ts';
import { EmptyState } from '~/ui/states.tsx';
import { LookBadge, VisibleText } from '~/ui/text.tsx';
import { FROZEN_LOOK, type Freeze, passText, placeLabel } from './freezes.tsx';
import classes from './leases.module.css';
import pageClasses from '~/ui/page.module.css';

/** The windows of these freezes in the coming weeks: what is frozen now, then what comes, month by month. */
export function FreezeCalendar({ freezes }: { readonly freezes: readonly Freeze[] }) {
  // By the minute: nothing begins or ends between two.
  const nowMs = useAtDatabaseNow((ms) =>
    ms === null ? null : Math.floor(ms / MINUTE_MS) * MINUTE_MS,
  );
  const { months, isCut } = useMemo(
    () => (nowMs === null ? NOTHING : calendarOf(freezes, nowMs)),
    [freezes, nowMs],
  );
  if (months.length === 0) {
    return (
      <EmptyState title="Nothing is frozen">
        {`Neither now nor within the next ${count(CALENDAR_DAYS)} days.`}
      </EmptyState>
    );
  }
  return (
    <>
      <table className={pageClasses['table']} aria-label="Calendar of freezes">
        <thead>
          <tr>
            <th scope="col">Frozen</th>
            <th scope="col">What, and why</th>
          </tr>
        </thead>
        {months.map(({ title, windows }) => (
          <tbody key={title}>
            <tr>
              <th scope="rowgroup" colSpan={2}>
                {title === NOW ? <LookBadge look={FROZEN_LOOK} /> : title}
              </th>
            </tr>
            {windows.map((window) => (
              <WindowRow key={`${window.freeze.freezeId} ${String(window.fromMs)}`} of={window} />
            ))}
          </tbody>
        ))}
      </table>
      {isCut ? (
        <p className={classes['cut']}>Only the first {count(WINDOWS_MAX)} windows are shown.</p>
      ) : null}
    </>
  );
}

function WindowRow({ of: { freeze, fromMs, untilMs } }: { readonly of: Frozen }) {
  const zone = freeze.recurrence?.zone ?? 'UTC';
  const exact = [fromMs, untilMs].map((ms) => absolute(new Date(ms).toISOString())).join(' to ');
  return (
    <tr>
      <td title={exact}>
        <time dateTime={new Date(fromMs).toISOString()}>{zoneTime(fromMs, zone)}</time>
        {' – '}
        <time dateTime={new Date(untilMs).toISOString()}>{zoneTime(untilMs, zone)}</time>
        <div className="dimmed">{zone}</div>
      </td>
      <td>
        <VisibleText>{placeLabel(freeze)}</VisibleText>
        <div className="dimmed">
          <VisibleText>{`${freeze.reason}. ${passText(freeze)}`}</VisibleText>
        </div>
      </td>
    </tr>
  );
}

const MINUTE_MS = 60_000;
const NOW = 'Now';
const NOTHING = { months: [], isCut: false };

/** How far ahead a calendar looks. */
const CALENDAR_DAYS = 35;
const CALENDAR_MS = CALENDAR_DAYS * 24 * 60 * MINUTE_MS;
/** More windows of one freeze, and of all, are not shown. */
const WINDOWS_OF_ONE_MAX = 40;
const WINDOWS_MAX = 120;

/** One window of a freeze. */
interface Frozen {
  readonly freeze: Freeze;
  readonly fromMs: number;
  readonly untilMs: number;
  readonly isNow: boolean;
}

interface Month {
  /** `December 2026`, of the day on which its windows begin, in UTC. */
  readonly title: string;
  readonly windows: readonly Frozen[];
}

/** The present windows and those that begin within {@link CALENDAR_DAYS}, by month; `isCut`: there are more. */
export function calendarOf(
  freezes: readonly Freeze[],
  nowMs: number,
): { readonly months: readonly Month[]; readonly isCut: boolean } {
  const all = freezes
    .flatMap((freeze) => windowsOf(freeze, nowMs))
    .sort((a, b) => a.fromMs - b.fromMs || a.untilMs - b.untilMs);
  const months = new Map<string, Frozen[]>();
  for (const window of all.slice(0, WINDOWS_MAX)) {
    const title = window.isNow ? NOW : MONTH.format(window.fromMs);
    months.set(title, [...(months.get(title) ?? []), window]);
  }
  const titled = [...months].map(([title, windows]) => ({ title, windows }));
  return { months: titled, isCut: all.length > WINDOWS_MAX };
}

function windowsOf(freeze: Freeze, nowMs: number): Frozen[] {
  const { recurrence, windows } = freeze;
  const found =
    recurrence === null
      ? windows.map(({ from, until }) => ({ fromMs: Date.parse(from), untilMs: Date.parse(until) }))
      : windowsFrom(recurrence, nowMs, WINDOWS_OF_ONE_MAX, nowMs + CALENDAR_MS);
  return found
    .filter(({ fromMs, untilMs }) => untilMs > nowMs && fromMs < nowMs + CALENDAR_MS)
    .map((window) => ({ ...window, freeze, isNow: window.fromMs <= nowMs }));
}

const MONTH = new Intl.DateTimeFormat('en-GB', { month: 'long', year: 'numeric', timeZone: 'UTC' });

/** `Fri 4 Dec, 17:00`, on the clock of a zone. */
function zoneTime(ms: number, zone: string): string {
  return new Intl.DateTimeFormat('en-GB', {
    timeZone: zone,
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  }).format(ms);
}
