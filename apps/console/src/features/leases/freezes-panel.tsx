import { Group, SegmentedControl } from '@mantine/core';
import { IconCalendarClock, IconSnowflake } from '@tabler/icons-react';
import { useMemo, useState } from 'react';
import { freezePlaceText, isWithinNamespace, printableText } from '@leasehold/keys-core';
import { windowsFrom } from '@leasehold/keys-core/freeze-windows';
import { useDatacenters } from '~/lib/datacenters.ts';
import { absolute, count } from '~/lib/format.ts';
import { useAtDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useSession, useWhyNot } from '~/lib/session.tsx';
import { lazyDialog } from '~/ui/lazy.tsx';
import { Panel, PlainTable } from '~/ui/page.tsx';
import { DataAge, StaleScope } from '~/ui/stale.tsx';
import { EmptyState, ErrorState, Foot, isWhole, Notice, UnreachableNotice } from '~/ui/states.tsx';
import { type Look, LookBadge, VisibleText } from '~/ui/text.tsx';
import { GuardedButton } from '~/ui/tip.tsx';
import {
  type Environment,
  type Freeze,
  FREEZES_EVERY_MS,
  minuteOf,
  useFreezes,
} from './freezes.tsx';
import classes from './freezes.module.css';
import pageClasses from '~/ui/page.module.css';

const VIEWS = ['List', 'Calendar'];

/**
 * All freezes of the datacenters that are listed, or those that are about one environment: as a list with what
 * operators do about them, or as a calendar of the coming weeks. Nothing without any.
 */
export function FreezesPanel({ of }: { readonly of?: Environment }) {
  const { freezes, read } = useFreezes(of);
  const [view, setView] = useState('List');
  const { data, error } = read;
  if (data === undefined) return <ErrorState read={read} what="the freezes" />;
  // The list of environments says it of its own.
  const missing = of === undefined ? null : <UnreachableNotice unreachable={data.unreachable} />;
  if (freezes.length === 0) {
    // Without a panel nothing else says that there may be some by now.
    return error === null ? (
      missing
    ) : (
      <Foot>
        <Notice tone="warn">Freezes could not be read again: {error.message}</Notice>
      </Foot>
    );
  }
  const age = { read, everyMs: FREEZES_EVERY_MS };
  return (
    <StaleScope {...age} isMarked>
      {missing}
      <Panel
        title="Freezes"
        isFlush
        meta={
          <Group gap="xs">
            <DataAge {...age} asOf={data.asOf} />
            <SegmentedControl
              aria-label="How freezes are shown"
              size="xs"
              data={VIEWS}
              value={view}
              onChange={setView}
            />
          </Group>
        }
      >
        {view === 'List' ? (
          <FreezeList freezes={freezes} />
        ) : (
          <FreezeCalendar freezes={freezes} isAll={isWhole(data)} />
        )}
        {data.nextCursor === null ? null : (
          <p className={classes['cut']}>Only the first {count(data.items.length)} are shown.</p>
        )}
      </Panel>
    </StaleScope>
  );
}

function FreezeList({ freezes }: { readonly freezes: readonly Freeze[] }) {
  const whyNot = useWhyNot('operator');
  const { namespaces } = useSession();
  const [ended, setEnded] = useState<Freeze>();
  const [isEnding, setEnding] = useState(false);
  return (
    <>
      <PlainTable label="What is frozen, and when" heads={HEADS}>
        {freezes.map((freeze) => (
          <tr key={freeze.freezeId}>
            <WhatIsFrozen freeze={freeze} />
            <td>
              <LookBadge look={freeze.state === 'frozen' ? FROZEN_LOOK : UPCOMING_LOOK} />
              <div className="dimmed">{whenText(freeze)}</div>
            </td>
            <td data-align="end">
              <GuardedButton
                variant="default"
                size="xs"
                whyNot={whyNot ?? whyNotEnd(freeze, namespaces)}
                aria-label={`End the freeze of ${placeLabel(freeze)}, ${whenText(freeze)}`}
                onClick={() => {
                  setEnded(freeze);
                  setEnding(true);
                }}
              >
                End…
              </GuardedButton>
            </td>
          </tr>
        ))}
      </PlainTable>
      {ended === undefined ? null : (
        <EndFreezeDialog
          isOpen={isEnding}
          onClose={() => setEnding(false)}
          freeze={ended}
          place={placeLabel(ended)}
          texts={endingTexts(ended)}
        />
      )}
    </>
  );
}

const HEADS = [
  { text: 'What, and why' },
  { text: 'When' },
  { text: 'Acts', align: 'end' },
] as const;

const EndFreezeDialog = lazyDialog('isOpen', () =>
  import('./freeze-dialogs.tsx').then((dialogs) => dialogs.EndFreezeDialog),
);

/** Its present window, or else the next one: `until 2026-12-07 07:00 UTC`. */
function whenText({ windows, state, recurrence }: Freeze): string {
  const [{ from, until } = { from: '', until: '' }] = windows;
  const when =
    state === 'frozen' ? `until ${minuteOf(until)}` : `${minuteOf(from)} to ${minuteOf(until)}`;
  return recurrence === null ? `${when} UTC` : `${when} UTC, recurring`;
}

/** What is frozen, with the only action if there is one. */
export function placeLabel({ action, ...freeze }: Freeze): string {
  const place = printableText(freezePlaceText(freeze));
  return action === null ? place : `${place} for ${printableText(action)}`;
}

/**
 * Why somebody who is limited to these namespaces may not end a freeze; undefined when they may. They see those above
 * their namespaces too. The controller decides again.
 */
export function whyNotEnd(
  { namespace }: Pick<Freeze, 'namespace'>,
  namespaces: readonly string[] | null,
): string | undefined {
  if (namespaces === null || namespaces.some((one) => isWithinNamespace(namespace, one))) {
    return undefined;
  }
  return 'It is about more than your namespaces.';
}

/** Which freeze ends, and for how long: one that comes again never comes again. */
export function endingTexts(freeze: Freeze): readonly string[] {
  const which = `Frozen ${whenText(freeze)}: ${printableText(freeze.reason)}.`;
  return freeze.recurrence === null
    ? [which]
    : [which, 'It comes again: all its coming windows end too.'];
}

/** Who may override a freeze. */
function passText({ allow }: Freeze): string {
  const who = [...allow.roles, ...allow.people];
  return who.length === 0 ? 'Nobody may override it.' : `May be overridden by ${who.join(', ')}.`;
}

const FROZEN_LOOK: Look = { label: 'Frozen now', tone: 'warn', icon: IconSnowflake };
const UPCOMING_LOOK: Look = { label: 'Next', tone: 'calm', icon: IconCalendarClock };

/** The windows of these freezes in the coming weeks: what is frozen now, then what comes, month by month. */
function FreezeCalendar({
  freezes,
  isAll,
}: {
  readonly freezes: readonly Freeze[];
  /** Whether there are no others that are not known. */
  readonly isAll: boolean;
}) {
  // By the minute: nothing begins or ends between two.
  const nowMs = useAtDatabaseNow((ms) =>
    ms === null ? null : Math.floor(ms / MINUTE_MS) * MINUTE_MS,
  );
  const { months, isCut } = useMemo(
    () => (nowMs === null ? NOTHING : calendarOf(freezes, nowMs)),
    [freezes, nowMs],
  );
  if (months.length === 0) {
    return isAll ? (
      <EmptyState title="Nothing is frozen">
        {`Neither now nor within the next ${count(CALENDAR_DAYS)} days.`}
      </EmptyState>
    ) : null;
  }
  return (
    <>
      <div
        className={classes['calendar']}
        tabIndex={0}
        role="region"
        aria-label="Calendar of freezes"
      >
        <table className={pageClasses['table']}>
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
      </div>
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
        <time dateTime={new Date(untilMs).toISOString()}>{endTime(fromMs, untilMs, zone)}</time>
        <div className="dimmed">{zone}</div>
      </td>
      <WhatIsFrozen freeze={freeze} />
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
    .map((window, index) => ({
      ...window,
      freeze,
      // The database says whether: `nowMs` may be most of a minute behind it.
      isNow: index === 0 && freeze.state === 'frozen' && window.fromMs < nowMs + MINUTE_MS,
    }));
}

const MONTH = new Intl.DateTimeFormat('en-GB', { month: 'long', year: 'numeric', timeZone: 'UTC' });

/** When a window ends: without the day where that is the day on which it begins. */
function endTime(fromMs: number, untilMs: number, zone: string): string {
  const [begin, end] = [zoneTime(fromMs, zone), zoneTime(untilMs, zone)];
  const [day = '', time = ''] = end.split(', ');
  return begin.startsWith(`${day}, `) ? time : end;
}

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

function WhatIsFrozen({ freeze }: { readonly freeze: Freeze }) {
  const { isSeveral } = useDatacenters();
  return (
    <td>
      <VisibleText>{placeLabel(freeze)}</VisibleText>
      {isSeveral ? ` in ${freeze.datacenter}` : null}
      <div className="dimmed">
        <VisibleText>{`${freeze.reason}. ${passText(freeze)}`}</VisibleText>
      </div>
    </td>
  );
}
