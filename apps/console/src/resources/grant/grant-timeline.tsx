import type { MouseEvent } from 'react';
import { textParam, useQueryState } from '~/lib/address.ts';
import { duration } from '~/lib/format.ts';
import { useDetailList } from '~/lib/list-state.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import type { ResourceRef } from '~/lib/routes.ts';
import { type GrantFace, GROUP_OF } from '~/resources/grant-view.ts';
import { EmptyState } from '~/ui/states.tsx';
import { column, type Column } from '~/ui/table/column.ts';
import { DataTable } from '~/ui/table/data-table.tsx';
import { mapItems } from '~/ui/table/table-state.ts';
import { CopyableId, Mono, RelativeTime, Under, VisibleText } from '~/ui/text.tsx';
import {
  type Axis,
  barOf,
  grantsOfEvents,
  type HeldBySeveral,
  type PastGrant,
  storyOf,
} from './grants-of-events.ts';
import classes from './grant-timeline.module.css';

/** A row of the timeline: the grant, and its place on the axis of the page. */
interface TimelineRow extends PastGrant {
  readonly bar: { readonly start: number; readonly length: number };
  readonly axis: Axis;
  /** Where the moment that somebody asks about is on the axis; null where it is not on it. */
  readonly mark: number | null;
  readonly asOf: string;
}

/**
 * Who held it, with which token, from when to when, how it ended and why; newest first, paged. Of an
 * environment also what for. A click on a bar asks who held it at that moment.
 */
export function GrantTimeline({
  face,
  resource,
  asOf,
  held,
}: {
  readonly face: GrantFace;
  readonly resource: ResourceRef;
  /** When the page's data was made. */
  readonly asOf: string;
  /** The grants that last, of what several may hold at once. */
  readonly held?: HeldBySeveral | undefined;
}) {
  const nowMs = useDatabaseNow() ?? Date.parse(asOf);
  const { input, isFirstPage, table } = useDetailList(resource);
  const read = useLiveQuery(GROUP_OF[face], 'history', input);
  const grants = grantsOfEvents(read.data?.items ?? [], {
    isNewestPage: isFirstPage,
    held,
  });
  const [moment] = useMoment();
  const axis = axisOf(grants, nowMs);
  const mark = markOf(moment, axis);
  const rows = grants.map((grant) => ({ ...grant, bar: barOf(grant, axis), axis, mark, asOf }));
  return (
    <DataTable
      label="grants"
      columns={face === 'environment' ? ENVIRONMENT_COLUMNS : COLUMNS}
      read={mapItems(read, rows, asOf)}
      rowId={(grant) => grant.leaseId}
      {...table}
      empty={<EmptyState title="No grants">The history is no longer kept.</EmptyState>}
    />
  );
}

/** From the oldest beginning on the page to the newest end; now, while one lasts. */
function axisOf(grants: readonly PastGrant[], nowMs: number): Axis {
  const known = grants.flatMap(({ from, to }) => [from, to]).flatMap((at) => at ?? []);
  const times = known.map((at) => Date.parse(at));
  const isOpen = grants.some(({ isLasting }) => isLasting);
  return {
    fromMs: Math.min(nowMs, ...times),
    toMs: isOpen ? nowMs : Math.max(...times),
  };
}

function markOf(moment: string | null, { fromMs, toMs }: Axis): number | null {
  const ms = moment === null ? Number.NaN : Date.parse(moment);
  return ms >= fromMs && ms <= toMs ? (ms - fromMs) / Math.max(1, toMs - fromMs) : null;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(2)}%`;
}

const HELD: Column<TimelineRow>[] = [
  column('Token', {}, (grant) => <CopyableId id={grant.fencingToken} label="fencing token" />),
  column('Holder', {}, ({ holder, action }) => (
    <span className={classes['holder']}>
      {holder === null ? '–' : <Mono title={holder}>{holder}</Mono>}
      {action === null ? null : (
        <Under upTo="md">
          <VisibleText>{action}</VisibleText>
        </Under>
      )}
    </span>
  )),
];

const WHEN: Column<TimelineRow>[] = [
  column('When', { from: 'md' }, (grant) => <GrantBar grant={grant} />),
  column('From', { from: 'lg' }, (grant) =>
    grant.from === null ? 'before' : <RelativeTime at={grant.from} asOf={grant.asOf} />,
  ),
  column('Held for', { from: 'sm' }, (grant) => <Lasted grant={grant} />),
];

const WENT: Column<TimelineRow> = column('What happened', { isFilling: true }, (grant) => (
  <HowItWent grant={grant} />
));

const COLUMNS = [...HELD, ...WHEN, WENT];

const ENVIRONMENT_COLUMNS = [
  ...HELD,
  column('Action', { from: 'md' }, ({ action }: TimelineRow) =>
    action === null ? '–' : <Mono title={action}>{action}</Mono>,
  ),
  column('Comment', { from: 'md' }, ({ comment }: TimelineRow) => (
    <span className={classes['comment']} title={comment ?? ''}>
      {comment === null ? '–' : <VisibleText>{comment}</VisibleText>}
    </span>
  )),
  ...WHEN,
  WENT,
];

/** When the grant was on the axis of the page. A click asks about that moment, Enter about the middle of it. */
function GrantBar({ grant }: { readonly grant: TimelineRow }) {
  const [, setMoment] = useMoment();
  const { bar, axis, mark } = grant;
  const ask = (event: MouseEvent<HTMLButtonElement>): void => {
    const box = event.currentTarget.getBoundingClientRect();
    const isByKeyboard = event.detail === 0;
    const share = isByKeyboard
      ? bar.start + bar.length / 2
      : Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    setMoment(new Date(axis.fromMs + share * (axis.toMs - axis.fromMs)).toISOString());
  };
  return (
    <button
      type="button"
      className={classes['when']}
      title="Who held it at this moment?"
      aria-label={`Who held it in the middle of the grant with token ${grant.fencingToken}?`}
      onClick={ask}
    >
      <span className={classes['axis']}>
        <span
          className={classes['bar']}
          data-end={endKind(grant)}
          style={{ left: percent(bar.start), width: percent(bar.length) }}
        />
        {mark === null ? null : (
          <span className={classes['mark']} style={{ left: percent(mark) }} />
        )}
      </span>
    </button>
  );
}

function Lasted({ grant }: { readonly grant: TimelineRow }) {
  const nowMs = useDatabaseNow() ?? Date.parse(grant.asOf);
  if (grant.from === null || (grant.to === null && !grant.isLasting)) return '–';
  const toMs = grant.to === null ? nowMs : Date.parse(grant.to);
  return duration(toMs - Date.parse(grant.from));
}

function HowItWent({ grant }: { readonly grant: TimelineRow }) {
  const text = storyOf(grant);
  return (
    <span className={classes['went']} data-end={endKind(grant)} title={text}>
      <VisibleText>{text}</VisibleText>
    </span>
  );
}

function endKind({ end, isLasting }: TimelineRow): string | undefined {
  return isLasting ? 'current' : end?.kind;
}

/** The field of an address that holds the moment somebody asks about; it belongs to one tab. */
export const MOMENT_PARAM = 'at';

/** The moment that is asked about, in the address, and how to ask about another; null for none. */
export function useMoment() {
  return useQueryState(MOMENT_PARAM, textParam);
}
