import {
  IconArrowBackUp,
  IconArrowBounce,
  IconArrowsExchange,
  IconBan,
  IconCircleCheck,
  IconCircleX,
  IconClockPause,
  IconHandOff,
  IconHandStop,
  IconPencil,
  IconPlayerPlay,
  IconRepeat,
  IconTrash,
} from '@tabler/icons-react';
import type { UseQueryResult } from '@tanstack/react-query';
import { Fragment } from 'react';
import type { EventKind, EventView, WaiterView } from '@leasehold/keys-core';
import type { ApiError, Outputs } from '~/lib/api/api.ts';
import { absolute, ago, count, dayTime, duration } from '~/lib/format.ts';
import { useDetailList } from '~/lib/list-state.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { at, type ResourceRef } from '~/lib/routes.ts';
import { type GrantFace, GROUP_OF } from '~/resources/grant-view.ts';
import { PersonLink } from '~/resources/looks.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { type Column, column } from '~/ui/table/column.ts';
import { DataTable } from '~/ui/table/data-table.tsx';
import { type ListPage, mapItems } from '~/ui/table/table-state.ts';
import {
  CopyableId,
  Link,
  type Look,
  LookBadge,
  Mono,
  RelativeTime,
  Under,
  VisibleText,
} from '~/ui/text.tsx';
import { Tip } from '~/ui/tip.tsx';
import { eventSentence, eventText } from './event-texts.ts';
import type { EventItem } from './grants-of-events.ts';
import classes from './grant-timeline.module.css';

/** Everything that happened to a resource, newest first. */
export function EventsPanel({
  face,
  resource,
  asOf,
}: {
  readonly face: GrantFace;
  readonly resource: ResourceRef;
  readonly asOf: string;
}) {
  const { input, table } = useDetailList(resource);
  const read = useLiveQuery(GROUP_OF[face], 'history', input);
  return (
    <DataTable
      label="events"
      columns={EVENT_COLUMNS}
      read={mapItems(read, read.data?.items ?? [], asOf)}
      rowId={(event) => event.id}
      {...table}
      empty={
        <EmptyState title="No events">Old events are deleted after the retention time.</EmptyState>
      }
    />
  );
}

const EVENT_COLUMNS: Column<EventItem>[] = [
  column('Time', { from: 'sm' }, (event) => <Mono>{absolute(event.at)}</Mono>),
  column('Event', {}, (event) => (
    <>
      <LookBadge look={EVENT_LOOKS[event.kind]} />
      <Under upTo="sm">
        <EventTime at={event.at} />
      </Under>
    </>
  )),
  column('Token', { from: 'sm' }, (event) => <Mono>{event.fencingToken}</Mono>),
  column('What happened', { isFilling: true }, (event) => (
    <span className={classes['went']} title={eventText(event)}>
      <EventSentence event={event} />
    </span>
  )),
];

/** What happened, in words, with links to what they name. */
export function EventSentence({ event }: { readonly event: EventView }) {
  return eventSentence(event).map(({ text, href, isActor }, place) => (
    // The parts of one event never change their places.
    <Fragment key={place}>
      {isActor === true ? (
        <PersonLink name={text} />
      ) : href === undefined ? (
        <VisibleText>{text}</VisibleText>
      ) : (
        <Link href={href}>
          <VisibleText>{text}</VisibleText>
        </Link>
      )}
    </Fragment>
  ));
}

/** The day and the time in UTC; how long ago, and the milliseconds, on hover and for the keyboard. */
export function EventTime({ at }: { readonly at: string }) {
  const nowMs = useDatabaseNow();
  const past = nowMs === null ? '' : `${ago(nowMs - Date.parse(at))} · `;
  return (
    <Tip
      label={
        <span className="mono">
          {past}
          {absolute(at)}
        </span>
      }
    >
      <time dateTime={at} className="mono">
        {dayTime(at)}
      </time>
    </Tip>
  );
}

/** One look for each kind of event, everywhere. */
export const EVENT_LOOKS: Record<EventKind, Look> = {
  granted: { label: 'Granted', tone: 'good', icon: IconCircleCheck },
  taken_over: { label: 'Taken over', tone: 'info', icon: IconArrowsExchange },
  released: { label: 'Released', tone: 'calm', icon: IconArrowBackUp },
  failed: { label: 'Failed', tone: 'bad', icon: IconCircleX },
  expired: { label: 'Expired', tone: 'warn', icon: IconClockPause },
  removed: { label: 'Removed', tone: 'calm', icon: IconTrash },
  renewal_blocked: { label: 'Renewal blocked', tone: 'warn', icon: IconHandStop },
  renewal_allowed: { label: 'Renewal allowed', tone: 'info', icon: IconPlayerPlay },
  updated: { label: 'Updated', tone: 'calm', icon: IconPencil },
  revoked: { label: 'Revoked', tone: 'bad', icon: IconBan },
  crash_loop: { label: 'Crash loop', tone: 'bad', icon: IconRepeat },
  renewal_refused: { label: 'Renewal refused', tone: 'bad', icon: IconHandOff },
  superseded: { label: 'Superseded', tone: 'warn', icon: IconArrowBounce },
};

/** Waiters come and go without events. */
const WAITERS_EVERY_MS = 1_500;

interface WaiterRow extends WaiterView {
  /** From 1; null on later pages, which do not know how many come before. */
  readonly place: number | null;
  readonly asOf: string;
}

/** The waiters, first in line first: place, who, since when and for how long. */
export function WaitersPanel({
  face,
  resource,
  asOf,
}: {
  readonly face: 'key' | 'lease';
  readonly resource: ResourceRef;
  readonly asOf: string;
}) {
  const { input, isFirstPage, table } = useDetailList(resource);
  const read = useLiveQuery(GROUP_OF[face], 'waiters', input, { everyMs: WAITERS_EVERY_MS });
  const rows = (read.data?.items ?? []).map((waiter, index) => ({
    ...waiter,
    place: isFirstPage ? index + 1 : null,
    asOf,
  }));
  return (
    <DataTable
      label="waiters"
      columns={WAITER_COLUMNS}
      read={mapItems(read, rows, asOf)}
      rowId={(waiter) => waiter.ticketId}
      {...table}
      empty={
        <EmptyState title="Nobody is waiting">
          The next caller is the first in the queue.
        </EmptyState>
      }
    />
  );
}

const WAITER_COLUMNS: Column<WaiterRow>[] = [
  column('Place', {}, (waiter) =>
    waiter.place === null ? '–' : <Mono>{count(waiter.place)}</Mono>,
  ),
  column('Waiter', {}, (waiter) => <Mono title={waiter.waiter}>{waiter.waiter}</Mono>),
  column('Since', { from: 'md' }, (waiter) => (
    <RelativeTime at={waiter.since} asOf={waiter.asOf} />
  )),
  column('Waited', {}, (waiter) => <Waited waiter={waiter} />),
  column('Ticket', { from: 'md' }, (waiter) => (
    <CopyableId id={waiter.ticketId} label="ticket id" isShort />
  )),
];

function Waited({ waiter }: { readonly waiter: WaiterRow }) {
  const nowMs = useDatabaseNow();
  const sinceMs = Date.parse(waiter.since);
  return duration(nowMs === null ? waiter.waitedMs : nowMs - sinceMs);
}

type Queue = Outputs['environments']['queue'];
type Queued = Queue['waiting'][number] & { readonly asOf: string };
type SupersededWait = Queue['superseded'][number] & { readonly asOf: string };

/** Who waits for an environment, the next one first, and who was superseded within the last day. */
export function QueuePanel({ resource }: { readonly resource: ResourceRef }) {
  const { namespace, name, datacenter } = resource;
  const input = { namespace, name, ...at(datacenter) };
  const read = useLiveQuery('environments', 'queue', input, { everyMs: WAITERS_EVERY_MS });
  const { table } = useDetailList(resource);
  const { waiting = [], superseded = [], asOf = '' } = read.data ?? {};
  const rowsOf = <Row,>(rows: readonly Row[]) => {
    const data = read.data === undefined ? undefined : { ...read.data, nextCursor: null };
    const dated = rows.map((row) => ({ ...row, asOf }));
    return mapItems(
      { ...read, data } as Parameters<typeof mapItems>[0],
      dated,
      asOf,
    ) as UseQueryResult<ListPage<Row & { asOf: string }>, ApiError>;
  };
  return (
    <>
      <DataTable
        label="queue"
        columns={QUEUE_COLUMNS}
        read={rowsOf(waiting)}
        rowId={({ waiter, since }) => `${waiter} ${since}`}
        {...table}
        empty={
          <EmptyState title="Nobody is waiting">
            The next caller is the first in the queue.
          </EmptyState>
        }
      />
      {superseded.length > 0 && (
        <DataTable
          label="superseded requests"
          columns={SUPERSEDED_COLUMNS}
          read={rowsOf(superseded)}
          rowId={({ waiter, at: endedAt }) => `${waiter} ${endedAt}`}
          {...table}
          empty={null}
        />
      )}
    </>
  );
}

function Work({ of: { action, comment } }: { readonly of: Queued | SupersededWait }) {
  return <VisibleText>{comment === null ? action : `${action} ${comment}`}</VisibleText>;
}

const QUEUE_COLUMNS: Column<Queued>[] = [
  column('Place', {}, ({ place }) => <Mono>{count(place)}</Mono>),
  column('Waiter', {}, ({ waiter }) => <Mono title={waiter}>{waiter}</Mono>),
  column('For', {}, (queued) => <Work of={queued} />),
  column('Since', {}, ({ since, asOf }) => <RelativeTime at={since} asOf={asOf} />),
  column('Order', { from: 'md' }, ({ isPrior, isNewestFirst }) =>
    [isPrior ? 'prior by its role' : '', isNewestFirst ? 'newest first' : '']
      .filter((text) => text !== '')
      .join(', '),
  ),
];

const SUPERSEDED_COLUMNS: Column<SupersededWait>[] = [
  column('Superseded', {}, ({ waiter }) => <Mono title={waiter}>{waiter}</Mono>),
  column('For', {}, (superseded) => <Work of={superseded} />),
  column('By', {}, ({ by, byComment }) => (
    <VisibleText>{byComment === null ? by : `${by} (${byComment})`}</VisibleText>
  )),
  column('When', {}, ({ at: endedAt, asOf }) => <RelativeTime at={endedAt} asOf={asOf} />),
  column('Waited since', { from: 'md' }, ({ since, asOf }) => (
    <RelativeTime at={since} asOf={asOf} />
  )),
];
